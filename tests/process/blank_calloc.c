/* Usage: test_blank_calloc
 * Tests that calloc of 33 KiB to 1 MiB does not write to memory that no block has used yet. A program that allocates much and uses little of it
 * therefore needs little memory. If another block was at this address before, calloc must still return zeros. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define KIB ((size_t)1024)
enum { PAGE = 4096, BLOCKS = 24, FEW = 100, ROUNDS = 6 };

static long faults(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
}

static bool is_zero(const unsigned char *block, size_t size)
{
    return block[0] == 0 && memcmp(block, block + 1, size - 1) == 0;
}

/* Allocates 24 blocks of 300 KiB, which have 1,800 pages. Only HAKMEM's own tables and the first page of
 * each block may fault. An emulator takes a few faults of its own. */
static void blank_blocks_cost_nothing(void)
{
    unsigned char *blocks[BLOCKS];
    long before = faults();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = calloc(300, KIB);
    long taken = faults() - before;
    CHECK(taken <= FEW, "%ld page faults for %d blocks that nobody used", taken, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i] != NULL && is_zero(blocks[i], 300 * KIB), "block %u is not zero", i);
        free(blocks[i]);
    }
}

/* The test uses several sizes in turn, so that slabs of one class lie where slabs of another class were. */
static void used_blocks_are_zero(void)
{
    static const size_t sizes[] = {33 * KIB, 48 * KIB, 100 * KIB, 200 * KIB, 520 * KIB, 1000 * KIB, 57 * KIB};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    unsigned char *kept[ROUNDS][SIZES];
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < SIZES; i++) {
            unsigned char *other = malloc(sizes[(i + round) % SIZES]), *block = calloc(1, sizes[i]);
            CHECK(is_zero(block, sizes[i]), "a block of %zu bytes is not zero in round %u", sizes[i], round);
            memset(block, 0xa5, sizes[i]);
            memset(other, 0x5a, sizes[(i + round) % SIZES]);
            free(other);
            kept[round][i] = round % 2 == 0 ? block : NULL;
            if (round % 2 != 0)
                free(block);
        }
    for (unsigned round = 0; round < ROUNDS; round += 2)
        for (unsigned i = 0; i < SIZES; i++)
            free(kept[round][i]);
}

int main(void)
{
    blank_blocks_cost_nothing();
    used_blocks_are_zero();
    used_blocks_are_zero();
    return check_report("blank_calloc");
}
