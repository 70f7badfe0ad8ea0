/* Tests programs that request large blocks and use little of them. The resident memory must be in proportion to the bytes that the program
 * writes. The program writes the first bytes of one block again and again, of several blocks of random size, and of blocks that calloc returns at
 * the address of a fully used block. It also writes to a few places of each block. Blocks that are fully used after that are on huge pages again. */
#include "support/check.h"
#include "support/procinfo.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)
enum {
    ROUNDS = 200,
    LIVE = 8,
    START = 16 << 10,
    MANY = 32,
    PLACES = 8,
    MOST_TURNS = 60,
    PASSES = 3 /* repeats each test because khugepaged may assemble a huge page in one pass */
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

static void one(void)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        free(used(malloc(400 * MIB), 64));
}

static void several(void)
{
    char *live[LIVE] = {NULL};
    unsigned random = 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        size_t k = random >> 16 & (LIVE - 1), size = MIB + (random >> 8) % 100 * MIB;
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

static void in_places(void)
{
    char *live[LIVE] = {NULL};
    unsigned random = 1;
    malloc_trim(0);
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        size_t k = i % LIVE, size = 8 * MIB + (random >> 8) % 100 * MIB;
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

static void takes_no_more(const char *what, size_t before_kib, size_t most)
{
    CHECK(most_kib <= before_kib + most, "%s: %zu KiB, %zu before", what, most_kib, before_kib);
    most_kib = 0;
}

int main(void)
{
    free(malloc(2 * MIB));
    free(malloc(100));
    size_t before = procinfo_rss_kib();
    one();
    takes_no_more("one", before, 1024);
    several();
    takes_no_more("several", before, 2048);
    zeroed(80 * MIB);
    takes_no_more("zeroed", before, 2048);
    static const size_t size[] = {3 * MIB, 7 * MIB, 30 * MIB, 100 * MIB};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        used_as_a_whole(size[i]);
        zeroed(size[i]);
        size_t least_kib = SIZE_MAX;
        for (unsigned pass = 0; pass < PASSES; pass++) {
            most_kib = 0;
            zeroed(size[i]);
            if (most_kib < least_kib)
                least_kib = most_kib;
        }
        most_kib = least_kib;
        takes_no_more("zeroed where all was used", before, 2048);
    }
    for (size_t of_size = MIB / 2 + MIB / 8; of_size <= MIB; of_size += MIB / 8) {
        zeroed_side_by_side(of_size);
        takes_no_more("zeroed side by side", before, MANY * 160);
    }
    size_t whole = faults_of_whole(8 * MIB), again = SIZE_MAX;
    for (unsigned turn = 1; turn < PASSES; turn++)
        whole = faults_of_whole(8 * MIB);
    in_places();
    takes_no_more("in places", before, 8192);
    for (unsigned turn = 0; turn < MOST_TURNS && again > 2 * whole; turn++)
        again = faults_of_whole(8 * MIB);
    CHECK(again <= 2 * whole, "%zu page faults of whole blocks, %zu before", again, whole);
    return check_report("little_used");
}
