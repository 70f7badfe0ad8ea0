/* Tests edge cases of the program's own heaps: refused metadata and memory, blocks that belong to no heap, forks, and reports with many heaps. */
#include "unit/unit.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "heaps/heap_slabs.h"
#include "heaps/heap_state.h"
#include "heaps/heaps.h"
#include "report/heap_stats.h"
#include "span/meta.h"
#include "support/pattern.h"
#include "tcache/tcache.h"

static hak_heap_t *begin_heap(size_t limit)
{
    unit_start();
    hak_heap_t *heap = hak_heap_create("edge", limit);
    assert_non_null(heap);
    return heap;
}

/* Makes the system refuse memory, and uses up all metadata. */
static void use_up_metadata(void)
{
    fake_os_refuse(fake_refuse_mappings);
    for (size_t bytes = HK_MIB; bytes >= HK_CACHE_LINE; bytes /= 2)
        while (hk_meta_alloc(bytes) != NULL)
            continue;
}

static void expect_no_memory(const void *block)
{
    assert_null(block);
    assert_int_equal(errno, ENOMEM);
    errno = 0;
}

UNIT_TEST(no_metadata_for_the_first_heap)
{
    unit_start();
    use_up_metadata();
    expect_no_memory(hak_heap_create("first", 0));
    fake_os_refuse(NULL);
    assert_non_null(hak_heap_create("first", 0));
}

UNIT_TEST(no_metadata_for_another_heap)
{
    hak_heap_t *heap = begin_heap(0);
    use_up_metadata();
    expect_no_memory(hak_heap_create("second", 0));
    expect_no_memory(hak_heap_malloc(heap, 100)); /* The call needs memory for a shelf and a slab. */
    expect_no_memory(hak_heap_malloc(heap, 3 * HK_MIB));
    expect_no_memory(hak_heap_calloc(heap, 10, 100));
    fake_os_refuse(NULL);
    void *block = hak_heap_malloc(heap, 100);
    assert_ptr_equal(hak_heap_of(block), heap);
}

/* Without memory for caches, each call allocates a single block from a slab. Bins keep their capacity. */
UNIT_TEST(no_metadata_for_caches)
{
    hak_heap_t *heap = begin_heap(0), *others[40];
    void *blocks[300];
    for (unsigned i = 0; i < 40; i++)
        assert_non_null(others[i] = hak_heap_create(NULL, 0));
    void *first = hak_heap_malloc(heap, 64), *near = hak_heap_aligned_alloc(others[0], 4096, 64);
    void *far = hak_heap_aligned_alloc(others[39], 4096, 64);
    hk_heap_shelf_end(&hk_tcache_self()->shelf);
    hak_free(first); /* The free makes a new shelf, with a cache of `heap` alone. */
    use_up_metadata();
    for (unsigned i = 0; i < 300; i++) {
        blocks[i] = hak_heap_malloc(heap, 64);
        assert_true(blocks[i] != NULL || errno == ENOMEM);
    }
    assert_non_null(blocks[30]);
    for (unsigned i = 1; i < 40; i += 37)
        hak_free(hak_heap_malloc(others[i], 64));
    hak_free(near);
    hak_free(far);
    for (unsigned i = 0; i < 300; i++)
        hak_free(blocks[i]);
    fake_os_refuse(NULL);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(hak_heap_destroy(others[i]), 0);
    assert_int_equal(hak_heap_destroy(heap), 0);
}

/* Tests a slab for which there is a descriptor, but no memory for its bitmap. */
UNIT_TEST(no_metadata_for_bits)
{
    hak_heap_t *heap = begin_heap(0);
    void *block = hak_heap_malloc(heap, 4096);
    hak_free(block);
    use_up_metadata();
    hk_heap_shelf_end(&hk_tcache_self()->shelf);
    assert_int_equal(hak_heap_reset(heap), 0); /* The descriptors of the heap can be used again. */
    expect_no_memory(hak_heap_malloc(heap, 16));
    fake_os_refuse(NULL);
    assert_non_null(hak_heap_malloc(heap, 16));
}

UNIT_TEST(realloc_at_the_edges)
{
    hak_heap_t *heap = begin_heap(4 * HK_MIB), *other = hak_heap_create("small", HK_SLICE);
    char *block = hak_heap_realloc(heap, NULL, 2 * HK_MIB);
    pattern_fill((unsigned char *)block, 2 * HK_MIB, 1);
    expect_no_memory(hak_heap_realloc(heap, block, 5 * HK_MIB)); /* 5 MiB exceed the heap's limit. */
    expect_no_memory(hak_heap_realloc(other, block, 3 * HK_MIB));
    assert_true(pattern_holds((unsigned char *)block, 2 * HK_MIB, 1));
    assert_int_equal(hak_malloc_usable_size(block), 2 * HK_MIB);
    assert_null(hak_heap_realloc(heap, block, 0));
    volatile size_t most = SIZE_MAX;
    expect_no_memory(hak_heap_malloc(heap, most));
    expect_no_memory(hak_heap_calloc(heap, most / 2, 3));
    struct hak_heap_stats stats;
    assert_int_equal(hak_heap_get_stats(heap, &stats, sizeof stats), 0);
    assert_true(stats.physical <= stats.limit && stats.live_blocks == 0);
}

static void put_elsewhere(void *block) { hk_heap_put(hk_heap_by_index(1), &block, 1); }
static void put_here(void *block) { hk_heap_put(hk_heap_by_index(0), &block, 1); }
static void put_twice(void *block)
{
    void *blocks[2] = {block, block};
    hk_heap_put(hk_heap_by_index(0), blocks, 2);
}
static void size_of(void *block) { (void)hak_malloc_usable_size(block); }

UNIT_TEST(blocks_that_are_none)
{
    void *taken[2];
    bool by_limit;
    hak_heap_t *heap = begin_heap(0);
    assert_non_null(hak_heap_create("other", 0));
    char *large = hak_heap_malloc(heap, 2 * HK_MIB);
    unit_dies(hak_free, large + HK_SLICE, "pointer inside a block");
    hk_lock(heap->lock);
    assert_int_equal(hk_heap_take(heap, CLASS_OF_64, taken + 2, 2, &by_limit), 2);
    hk_unlock(heap->lock);
    unit_dies(put_elsewhere, taken[0], "block of another heap");
    unit_dies(put_twice, taken[0], "block already free");
    unit_dies(put_here, (char *)taken[0] + 15 * HK_PAGE, "block already free"); /* That page belongs to no slab. */
    assert_int_equal(hak_heap_destroy(heap), 0);
    unit_dies(size_of, taken[0], "block of a heap that was destroyed or reset");
}

/* The child continues to use the caches and large blocks of the thread that forked. */
UNIT_TEST(forks)
{
    hak_heap_t *heap = begin_heap(0);
    void *block = hak_heap_malloc(heap, 100), *large = hak_heap_malloc(heap, 3 * HK_MIB);
    pid_t child = fork();
    if (child == 0) {
        struct hak_heap_stats stats;
        hak_free(block);
        (void)hak_heap_get_stats(heap, &stats, sizeof stats);
        bool right = stats.caches == 1 && stats.live_blocks == 1 && stats.large == hak_malloc_usable_size(large);
        hak_free(large);
        (void)hak_heap_get_stats(heap, &stats, sizeof stats);
        _exit(right && stats.live == 0 && stats.large == 0 && hak_heap_malloc(heap, 100) == block ? 7 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* The report shows the largest heaps, in descending order of size. */
UNIT_TEST(lines_of_many)
{
    enum { MANY = HK_REPORT_HEAPS + 10 };
    static struct hk_heap_stats heap_stats;
    unit_start();
    for (unsigned i = 0; i < MANY; i++) {
        hak_heap_t *heap = hak_heap_create(NULL, 0);
        for (unsigned n = 0; n <= i; n++)
            assert_non_null(hak_heap_malloc(heap, HK_SLICE));
    }
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.heap_lines_shown, HK_REPORT_HEAPS);
    for (unsigned i = 0; i < HK_REPORT_HEAPS; i++)
        assert_int_equal(heap_stats.heap_lines[i].physical, (MANY - i) * HK_SLICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_metadata_for_the_first_heap),
        cmocka_unit_test(no_metadata_for_another_heap),
        cmocka_unit_test(no_metadata_for_caches),
        cmocka_unit_test(no_metadata_for_bits),
        cmocka_unit_test(realloc_at_the_edges),
        cmocka_unit_test(blocks_that_are_none),
        cmocka_unit_test(forks),
        cmocka_unit_test(lines_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
