/* Tests that each page that the test touches is attributed to the right part of the report. */
#include "unit/unit.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "report/heap_stats.h"
#include "span/page_map.h"
#include "support/knobs.h"

static struct hk_heap_stats heap_stats;
static struct hk_rss_stats before, now;

/* Writes to each page of the range. The range gets no huge pages, because one access would otherwise make neighboring pages resident too. */
static void touch(void *from, size_t bytes)
{
    uintptr_t start = (uintptr_t)from & ~(uintptr_t)(HK_PAGE - 1), end = (uintptr_t)from + bytes;
    madvise((void *)start, (end - start + HK_PAGE - 1) & ~(size_t)(HK_PAGE - 1), MADV_NOHUGEPAGE);
    for (uintptr_t at = (uintptr_t)from; at < end; at += HK_PAGE)
        *(volatile char *)at = 1;
}

/* Checks that the rows of the classes add up to the parts. */
static void assert_rows_sum_up(const struct hk_rss_stats *rss_stats)
{
    struct hk_class_stats sum = {0};
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_stats *row = &rss_stats->classes[class];
        sum.live += row->live;
        sum.rounding += row->rounding;
        sum.in_bins += row->in_bins;
        sum.remote += row->remote;
        sum.free_in_slabs += row->free_in_slabs;
        sum.tails += row->tails;
        assert_true(rss_stats->all.pinned[class] <= row->free_in_slabs);
    }
    assert_int_equal(sum.live, rss_stats->all.parts[HK_PART_live]);
    assert_int_equal(sum.rounding, rss_stats->all.parts[HK_PART_rounding]);
    assert_int_equal(sum.in_bins, rss_stats->all.parts[HK_PART_thread_caches]);
    assert_int_equal(sum.remote, rss_stats->all.parts[HK_PART_remote_pending]);
    assert_int_equal(sum.free_in_slabs, rss_stats->all.parts[HK_PART_free_in_slabs]);
    assert_int_equal(sum.tails, rss_stats->all.parts[HK_PART_slab_tails]);
    assert_true(rss_stats->all.idle_huge <= rss_stats->all.parts[HK_PART_idle]);
    assert_true(rss_stats->all.rest_files <= rss_stats->rest_of_process);
}

static void look(struct hk_rss_stats *rss_stats)
{
    assert_null(heap_is_wrong(&heap_stats));
    hk_rss_stats_take(rss_stats, &heap_stats);
    for (int part = 0; part < HK_PARTS; part++)
        assert_true(rss_stats->all.parts[part] <= heap_stats.parts[part]);
    assert_rows_sum_up(rss_stats);
}

static bool elsewhere; /* true: the system refuses chosen addresses, so the heap lies among the program's mappings */

static void start(void)
{
    SET_KNOB(purge_delay, HK_PATIENT_MS + 1); /* excess stays */
    unit_start();
    assert_int_equal(hk_window_first() == 0, elsewhere || UNIT_UNDER_TSAN);
    look(&before);
}

static size_t more(enum hk_part part)
{
    look(&now);
    return now.all.parts[part] - before.all.parts[part];
}

UNIT_TEST(large)
{
    start();
    char *block = hak_malloc(8 * HK_MIB);
    touch(block, 2 * HK_MIB);
    assert_int_equal(more(HK_PART_large_live), 2 * HK_MIB);
    hak_free(block);
    assert_int_equal(more(HK_PART_large_cached), 2 * HK_MIB);
    assert_int_equal(more(HK_PART_large_live), 0);
    assert_ptr_equal(hak_malloc(3 * HK_MIB), block);
    touch(block + 3 * HK_MIB, 5 * HK_PAGE); /* These five pages of slack count as cached. */
    assert_int_equal(more(HK_PART_large_live), 2 * HK_MIB);
    assert_int_equal(more(HK_PART_large_cached), 5 * HK_PAGE);
}

/* Slack on huge pages that a purge would not cut off counts as a part of the block, and not as cached memory. */
UNIT_TEST(large_with_a_lead)
{
    start();
    SET_KNOB(huge_blocks_from, HK_MIB);
    char *block = hak_malloc(4 * HK_MIB);
    touch(block, 4 * HK_MIB + 4 * HK_PAGE);
    assert_int_equal(more(HK_PART_large_live), 4 * HK_MIB + 4 * HK_PAGE);
    assert_int_equal(more(HK_PART_large_cached), 0);
}

UNIT_TEST(heaps)
{
    start();
    hak_heap_t *heap = hak_heap_create("resident", 0);
    char *block = hak_heap_aligned_alloc(heap, HK_PAGE, HK_SLICE);
    touch(block, 5 * HK_PAGE);
    assert_int_equal(more(HK_PART_heaps), 5 * HK_PAGE);
    assert_int_equal(hak_heap_destroy(heap), 0);
    assert_int_equal(more(HK_PART_heaps), 0);
}

/* If the window lies around the program's mappings, most of its leaves have no chunks. The walk must not read chunks of these leaves. */
UNIT_TEST(large_elsewhere)
{
    elsewhere = fake_os.places_taken = true;
    start();
    char *block = hak_malloc(8 * HK_MIB), *small = hak_malloc(HK_SLICE);
    touch(block, 2 * HK_MIB);
    touch(small, 5 * HK_PAGE);
    assert_int_equal(more(HK_PART_large_live), 2 * HK_MIB);
    assert_int_equal(more(HK_PART_live), 5 * HK_PAGE);
}

/* Every other page is only read, because the kernel counts only pages that were written. */
UNIT_TEST(read_only_pages)
{
    enum { PAGES = 256 };
    start();
    char *block = hak_malloc(4 * HK_MIB), *second = block + 2 * HK_MIB;
    touch(block, HK_PAGE);
    madvise(second, PAGES * HK_PAGE, MADV_NOHUGEPAGE);
    for (int page = 0; page < PAGES; page++) {
        volatile char *byte = second + page * HK_PAGE;
        if (page % 2 == 0)
            assert_int_equal(*byte, 0);
        else
            *byte = 1;
    }
    assert_in_range(more(HK_PART_large_live), PAGES / 2 * HK_PAGE, (PAGES / 2 + 1) * HK_PAGE);
}

UNIT_TEST(large_then_idle)
{
    start();
    char *block = hak_malloc(HK_SLICE);
    touch(block, 5 * HK_PAGE);
    assert_int_equal(more(HK_PART_live), 5 * HK_PAGE);
    hak_free(block);
    assert_int_equal(more(HK_PART_thread_caches), 5 * HK_PAGE);
    hk_bin_empty(hk_tcache_self(), CLASS_OF_65536);
    assert_int_equal(more(HK_PART_idle), 5 * HK_PAGE);
    hak_malloc_trim(0);
    assert_int_equal(more(HK_PART_idle), 0);
}

UNIT_TEST(idle_on_a_huge_page)
{
    start();
    char *block = hak_malloc(HK_SLICE);
    struct hk_chunk *chunk = hk_page_map_chunk((uintptr_t)block);
    touch(block, 5 * HK_PAGE);
    hak_free(block);
    hk_bin_empty(hk_tcache_self(), CLASS_OF_65536);
    assert_int_equal(more(HK_PART_idle), 5 * HK_PAGE);
    assert_int_equal(now.all.idle_huge - before.all.idle_huge, 0);
    uint32_t free = chunk->free;
    hk_store(chunk->xhuge, true);
    /* A free slice counts as a part of a huge page only if another slice of the chunk is in use. */
    chunk->free &= ~(UINT32_C(1) << (((uintptr_t)block / HK_SLICE + 1) % HK_CHUNK_SLICES));
    hk_rss_stats_take(&now, &heap_stats);
    assert_int_equal(now.all.idle_huge - before.all.idle_huge, 5 * HK_PAGE);
    chunk->free = free;
    hk_store(chunk->xhuge, false);
}

/* A block pins the free bytes on its own page. Pages that have only free blocks are not counted as pinned. */
UNIT_TEST(pinned)
{
    enum { BLOCKS = 16 };
    char *blocks[BLOCKS];
    start();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(1024);
        touch(blocks[i], 1024);
    }
    assert_int_equal((uintptr_t)blocks[0] % HK_PAGE, 0);
    for (int i = 1; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hk_bin_empty(hk_tcache_self(), CLASS_OF_1024);
    look(&now);
    const struct hk_class_stats *row = &now.classes[CLASS_OF_1024];
    assert_int_equal(now.all.pinned[CLASS_OF_1024], HK_PAGE - 1024);
    assert_int_equal(row->free_in_slabs, BLOCKS * 1024 - 1024);
}

UNIT_TEST(files)
{
    start();
    assert_true(before.all.rest_files >= 16 * HK_PAGE);
    int fd = open("/proc/self/exe", O_RDONLY);
    char *file = mmap(NULL, 3 * HK_PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    assert_true(file != MAP_FAILED && file[0] == 0x7f);
    look(&now);
    assert_true(now.all.rest_files - before.all.rest_files >= 3 * HK_PAGE);
    assert_true(now.rest_of_process - before.rest_of_process >= now.all.rest_files - before.all.rest_files);
}

UNIT_TEST(within_a_slab)
{
    enum { BLOCKS = 16, FREED = 10 };
    char *blocks[BLOCKS];
    start();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(4096);
        touch(blocks[i], 4096);
    }
    assert_int_equal(more(HK_PART_live), BLOCKS * HK_PAGE);
    for (int i = 0; i < FREED; i++)
        hak_free(blocks[i]);
    hk_bin_empty(hk_tcache_self(), CLASS_OF_4096);
    assert_int_equal(more(HK_PART_free_in_slabs), FREED * HK_PAGE);
    assert_int_equal(more(HK_PART_live), (BLOCKS - FREED) * HK_PAGE);
}

/* The slab has 51 blocks of 1280 bytes, so the last 256 bytes of its last page belong to no block. */
UNIT_TEST(tail)
{
    start();
    char *block = hak_malloc(1280);
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    touch((char *)slab->d.start + slab->d.bytes - HK_PAGE, 1);
    assert_int_equal(more(HK_PART_slab_tails), 65536 % 1280);
    assert_int_equal(more(HK_PART_live) + more(HK_PART_thread_caches) + more(HK_PART_free_in_slabs),
                     HK_PAGE - 65536 % 1280);
}

/* The resident bytes of a class are divided among live bytes, rounding and bins. The shares are those that these parts have of all bytes of the
 * class. */
UNIT_TEST(by_ratio)
{
    start();
    char *block = hak_malloc(1100);
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    touch((void *)slab->d.start, slab->d.bytes);
    look(&now);
    const struct hk_class_stats *row = &heap_stats.classes[CLASS_OF_1152];
    assert_int_equal(row->live, 1100);
    assert_in_range(now.all.parts[HK_PART_live] - before.all.parts[HK_PART_live], 1099, 1103);
    assert_in_range(now.all.parts[HK_PART_rounding] - before.all.parts[HK_PART_rounding], 51, 52);
    assert_in_range(now.all.parts[HK_PART_thread_caches] - before.all.parts[HK_PART_thread_caches], row->in_bins - 1,
                    row->in_bins);
    assert_int_equal(now.all.parts[HK_PART_free_in_slabs] - before.all.parts[HK_PART_free_in_slabs],
                     row->free_in_slabs);
}

/* The resident metadata grows with the number of entries, and a look-up makes no page resident. */
UNIT_TEST(metadata)
{
    start();
    size_t first = before.all.parts[HK_PART_metadata];
    assert_true(first > 0);
    assert_int_equal(more(HK_PART_metadata), 0);
    for (int i = 0; i < 20000; i++)
        assert_non_null(hak_malloc(10000));
    assert_true(more(HK_PART_metadata) > 0);
}

static void assert_sums_up(const struct hk_rss_stats *rss_stats)
{
    size_t sum = rss_stats->rest_of_process;
    for (int part = 0; part < HK_PARTS; part++)
        sum += rss_stats->all.parts[part];
    if (sum < rss_stats->total / 50 * 49 || sum > rss_stats->total / 50 * 51)
        fail_msg("%zu bytes in parts of %zu resident", sum, rss_stats->total);
}

/* Memory that is not HAKMEM's, beside and between HAKMEM's mappings, counts as the rest of the process. */
UNIT_TEST(rest)
{
    enum { PIECES = 64 };
    start();
    assert_sums_up(&before);
    for (int i = 0; i < PIECES; i++) {
        void *others = mmap(NULL, 4 * HK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        touch(others, 3 * HK_PAGE);
        touch(hak_malloc(1500000), 3 * HK_PAGE);
    }
    look(&now);
    assert_sums_up(&now);
    assert_int_equal(now.all.parts[HK_PART_large_live] - before.all.parts[HK_PART_large_live], PIECES * 3 * HK_PAGE);
    assert_true(now.rest_of_process - before.rest_of_process >= PIECES * 3 * HK_PAGE);
}

UNIT_TEST(system_does_not_say)
{
    start();
    touch(hak_malloc(8 * HK_MIB), 8 * HK_MIB);
    fake_os_refuse(fake_refuse_resident);
    look(&now);
    for (int part = 0; part < HK_PARTS; part++)
        assert_int_equal(now.all.parts[part], 0);
    assert_true(fake_os_calls(FAKE_RESIDENT) > 0 && now.total >= 8 * HK_MIB);
    fake_os_refuse(fake_refuse_open);
    look(&now);
    assert_int_equal(now.total + now.rest_of_process, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large),
        cmocka_unit_test(large_with_a_lead),
        cmocka_unit_test(heaps),
        cmocka_unit_test(large_elsewhere),
        cmocka_unit_test(read_only_pages),
        cmocka_unit_test(large_then_idle),
        cmocka_unit_test(idle_on_a_huge_page),
        cmocka_unit_test(pinned),
        cmocka_unit_test(files),
        cmocka_unit_test(within_a_slab),
        cmocka_unit_test(tail),
        cmocka_unit_test(by_ratio),
        cmocka_unit_test(metadata),
        cmocka_unit_test(rest),
        cmocka_unit_test(system_does_not_say),
    };
    return cmocka_run_group_tests_name("rss_stats", tests, NULL, NULL);
}
