/* Tests programs that request large blocks and use little of them. The resident memory must be in proportion to the bytes that the program
 * writes. The program writes the first bytes of one block again and again, of several blocks of random size, and of blocks that calloc returns at
 * the address of a fully used block. It also writes to a few places of each block. Blocks that are fully used after that are on huge pages again. */
#include "support/check.h"
#include "support/procinfo.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)
enum {
    ROUNDS = 200,
    LIVE = 8,
    START = 16 << 10,
    MANY = 32,
    PLACES = 8,
    MOST_TURNS = 8,
    MOST_PASSES =
        10 /* khugepaged may assemble a huge page in one pass, so that a test counts as passed when one of its passes does */
};

static size_t most_kib;

static void note_resident(void)
{
    size_t now = procinfo_rss_kib();
    if (now > most_kib)
        most_kib = now;
}

/* Writes to the block. The pointer is volatile, because the compiler might otherwise remove a block that nobody reads. */
static char *used(char *block, size_t bytes)
{
    CHECK(block != NULL, "no memory");
    for (size_t at = 0; at < bytes; at += 64)
        ((volatile char *)block)[at] = 1;
    note_resident();
    return block;
}

static void one(size_t size)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        free(used(malloc(size), 64));
}

static void several(size_t most)
{
    char *live[LIVE] = {NULL};
    unsigned random = 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        size_t k = random >> 16 & (LIVE - 1), size = MIB + (random >> 8) % (most / MIB) * MIB;
        free(live[k]);
        live[k] = used(malloc(size), 64);
    }
    for (unsigned k = 0; k < LIVE; k++)
        free(live[k]);
}

static void zeroed(size_t size)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        char *block = calloc(1, size);
        CHECK(block[0] == 0 && block[START - 1] == 0 && block[size / 2] == 0 && block[size - 1] == 0,
              "calloc of %zu bytes is not zero in round %u", size, i);
        free(used(block, START));
    }
}

static void used_as_a_whole(size_t size)
{
    char *block = malloc(size);
    CHECK(block != NULL, "no memory");
    memset(block, 1, size);
    free(block);
}

static void in_places(size_t most)
{
    char *live[LIVE] = {NULL};
    unsigned random = 1;
    malloc_trim(0);
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        size_t k = i % LIVE, size = 8 * MIB + (random >> 8) % (most / MIB) * MIB;
        free(live[k]);
        live[k] = malloc(size);
        for (size_t place = 0; place < PLACES; place++)
            used(live[k] + size / PLACES * place, 64);
        if (i == ROUNDS)
            most_kib = 0; /* the first blocks are on huge pages */
    }
    for (unsigned k = 0; k < LIVE; k++)
        free(live[k]);
    malloc_trim(0);
}

static size_t faults(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return (size_t)usage.ru_minflt;
}

/* Returns the number of page faults of fully used blocks, which are more than the cache of large blocks holds. */
static size_t faults_of_whole(size_t size)
{
    char *block[MANY];
    malloc_trim(0);
    size_t before = faults();
    for (unsigned i = 0; i < MANY; i++)
        memset(used(block[i] = malloc(size), 64), 1, size);
    size_t after = faults();
    for (unsigned i = 0; i < MANY; i++)
        free(block[i]);
    return after - before;
}

/* Tests blocks that are in use at the same time, and that may therefore share huge pages. */
static void zeroed_side_by_side(size_t size)
{
    char *block[MANY];
    malloc_trim(0);
    for (unsigned i = 0; i < MANY; i++)
        memset(used(block[i] = malloc(size), 64), 1, size);
    for (unsigned i = 0; i < MANY; i++)
        free(block[i]);
    for (unsigned i = 0; i < MANY; i++) {
        block[i] = calloc(1, size);
        for (size_t at = 0; at < size; at++)
            CHECK(block[i][at] == 0, "calloc of %zu bytes: byte %zu of block %u is not zero", size, at, i);
    }
    for (unsigned i = 0; i < MANY; i++)
        free(block[i]);
    for (unsigned i = 0; i < MANY; i++)
        used(block[i] = calloc(1, size), START);
    most_kib = 0;
    note_resident();
    for (unsigned i = 0; i < MANY; i++)
        free(block[i]);
}

/* Returns the number of page faults of fresh memory that is to be on huge pages. It rises when the kernel has few huge pages left. */
static size_t faults_of_mapping(size_t size)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "mmap");
    madvise(memory, size, MADV_HUGEPAGE);
    size_t before = faults();
    memset(memory, 1, size);
    size_t after = faults();
    munmap(memory, size);
    return after - before;
}

static void takes_no_more(void (*test)(size_t size), const char *what, size_t size, size_t most)
{
    for (unsigned pass = 0; pass == 0 || (most_kib > most && pass < MOST_PASSES); pass++) {
        most_kib = 0;
        test(size);
    }
    CHECK(most_kib <= most, "%s: %zu KiB of at most %zu", what, most_kib, most);
}

int main(void)
{
    free(malloc(2 * MIB));
    free(malloc(100));
    size_t before = procinfo_rss_kib();
    takes_no_more(one, "one", 400 * MIB, before + 1024);
    takes_no_more(several, "several", 100 * MIB, before + 2048);
    takes_no_more(zeroed, "zeroed", 80 * MIB, before + 2048);
    static const size_t size[] = {3 * MIB, 7 * MIB, 30 * MIB, 100 * MIB};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        used_as_a_whole(size[i]);
        zeroed(size[i]);
        takes_no_more(zeroed, "zeroed where all was used", size[i], before + 2048);
    }
    for (size_t of_size = MIB / 2 + MIB / 8; of_size <= MIB; of_size += MIB / 8)
        takes_no_more(zeroed_side_by_side, "zeroed side by side", of_size, before + MANY * 160);
    for (unsigned turn = 0; turn < 3; turn++)
        faults_of_whole(8 * MIB);
    takes_no_more(in_places, "in places", 100 * MIB, before + 8192);
    size_t fresh, again;
    unsigned turn = 0;
    do {
        fresh = faults_of_mapping(MANY * 8 * MIB);
        again = faults_of_whole(8 * MIB);
    } while (again > 4 * fresh && ++turn < MOST_TURNS);
    CHECK(again <= 4 * fresh, "%zu page faults of whole blocks, %zu of a mapping", again, fresh);
    return check_report("little_used");
}
