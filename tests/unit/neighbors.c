/* Tests that a free finds writes to free memory within 32 bytes of either end of its block, also at the edges of slices and slabs. Writes that
 * are farther away must not be reported. */
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "guard/block_checks.h"
#include "hakmem.h"
#include "policy/options.h"
#include "slab/slab.h"

enum { MOST = 12000, BYTES = 4 << 20 };

static const size_t sizes[] = {16, 32, 48, 512, 4096};
static char *blocks[MOST];
static unsigned count;

static int by_address(const void *a, const void *b)
{
    char *const *left = a, *const *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* Allocates blocks of a class, and sorts them by address. The guard adds 8 bytes to each request. */
static void fill(size_t size)
{
    count = (unsigned)(BYTES / size < MOST ? BYTES / size : MOST);
    for (unsigned i = 0; i < count; i++)
        assert_non_null(blocks[i] = hak_malloc(size - 8));
    qsort(blocks, count, sizeof blocks[0], by_address);
}

static bool beside(char *block, char *next, size_t size)
{
    return next == block + size && hk_slab_at((uintptr_t)block) == hk_slab_at((uintptr_t)next);
}

/* Returns the middle one of three adjacent blocks. The three lie in the middle, at the beginning, or at the end of a slice. */
enum place { MIDDLE, FIRST, LAST };
static char **row_at(enum place place, size_t size)
{
    for (unsigned i = 1; i + 1 < count; i++) {
        size_t at = (uintptr_t)blocks[i] % HK_SLICE;
        bool there = place == FIRST  ? at < size + HK_NEIGHBORHOOD && at >= size
                     : place == LAST ? at + 2 * size > HK_SLICE - HK_PAGE && at + 2 * size <= HK_SLICE
                                     : at > 4096 + size && at < HK_SLICE / 2;
        if (there && beside(blocks[i - 1], blocks[i], size) && beside(blocks[i], blocks[i + 1], size))
            return &blocks[i];
    }
    fail_msg("no three blocks of %zu bytes at place %d", size, place);
    return NULL;
}

struct writing {
    char *freed, *at, *then; /* `freed` is freed first, then a byte at `at` is written, then `then` is freed. */
};

static void write_and_free(void *argument)
{
    const struct writing *writing = argument;
    hak_free(writing->freed);
    *(volatile char *)writing->at ^= 0x20;
    hak_free(writing->then);
}

static void told(char *freed, char *at, char *then, const char *line)
{
    unit_dies(write_and_free, &(struct writing){freed, at, then}, line);
}

#define BEHIND "hakmem: free(): bytes behind the block were overwritten"
#define BEFORE "hakmem: free(): bytes before the block were overwritten"

UNIT_TEST(free_neighbors)
{
    hk_options.hardened = "neighbors,zero";
    unit_start();
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i], span = size < HK_NEIGHBORHOOD ? size : HK_NEIGHBORHOOD;
        fill(size);
        for (enum place place = MIDDLE; place <= LAST; place++) {
            char **row = row_at(place, size);
            told(row[1], row[1], row[0], BEHIND);
            told(row[1], row[1] + span - 1, row[0], BEHIND);
            told(row[-1], row[-1] + size - 1, row[0], BEFORE);
            told(row[-1], row[-1] + size - span, row[0], BEFORE);
        }
    }
}

/* A free of a block of 16 bytes checks two neighbors on each side because they fill the 32 bytes that it checks. */
UNIT_TEST(second_neighbors)
{
    hk_options.hardened = "neighbors,zero";
    unit_start();
    fill(16);
    for (enum place place = MIDDLE; place <= LAST; place++) {
        char **row = row_at(place, 16);
        if (place != LAST)
            told(row[2], row[2] + 15, row[0], BEHIND);
        if (place != FIRST)
            told(row[-2], row[-2], row[0], BEFORE);
    }
}

UNIT_TEST(farther_bytes)
{
    hk_options.hardened = "neighbors,zero";
    unit_start();
    fill(512);
    char **row = row_at(MIDDLE, 512);
    write_and_free(&(struct writing){row[1], row[1] + HK_NEIGHBORHOOD, row[0]});
    row[1][HK_NEIGHBORHOOD] = 0;
    row = row_at(MIDDLE, 512) + 8;
    write_and_free(&(struct writing){row[-1], row[-1] + 512 - HK_NEIGHBORHOOD - 1, row[0]});
}

UNIT_TEST(live_neighbors)
{
    hk_options.hardened = "neighbors,zero";
    unit_start();
    fill(48);
    for (unsigned i = 0; i < count; i++)
        memset(blocks[i], 0xee, 40);
    for (unsigned i = 0; i < count; i += 2)
        hak_free(blocks[i]);
    for (unsigned i = 1; i < count; i += 2)
        hak_free(blocks[i]);
    unit_heap_holds(0);
}

static void write_to_canary(void *argument)
{
    const struct writing *writing = argument;
    *(volatile char *)writing->at ^= 1;
    hak_free(writing->then);
}

UNIT_TEST(canary_before)
{
    hk_options.hardened = "neighbors,canary";
    unit_start();
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fill(sizes[i]);
        for (enum place place = MIDDLE; place <= LAST; place++) {
            char **row = row_at(place, sizes[i]);
            unit_dies(write_to_canary, &(struct writing){NULL, row[0] - 8, row[0]}, BEFORE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_neighbors), cmocka_unit_test(second_neighbors), cmocka_unit_test(farther_bytes),
        cmocka_unit_test(live_neighbors), cmocka_unit_test(canary_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
