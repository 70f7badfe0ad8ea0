/* Tests bins and thread caches: hits, misses, overflow, growth within limits, remote frees, stealing from threads that sleep, and the end of a
 * thread. */
#include "unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "support/knobs.h"
#include "span/meta.h"
#include "slab/abandoned.h"
#include "span/page_heap.h"

enum { MANY = 5000 };

static void *blocks[MANY];

static struct hk_tcache *start(void)
{
    unit_start();
    struct hk_tcache *cache = hk_tcache_self();
    if (cache == NULL)
        abort();
    return cache;
}

static void get_many(size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = hak_malloc(size);
        assert_non_null(blocks[i]);
        memset(blocks[i], 0xee, size < 64 ? size : 64);
    }
}

static void free_many(size_t count)
{
    for (size_t i = 0; i < count; i++)
        hak_free(blocks[i]);
}

static uint64_t counted(const struct hk_tcache *cache, enum hk_stat stat)
{
    return hk_load(cache->owner.counts.xvalue[stat]);
}

UNIT_TEST(hits)
{
    struct hk_tcache *cache = start();
    hak_free(hak_malloc(64));
    uint64_t misses = counted(cache, HK_THREAD_misses), served = cache->hot.bins[CLASS_OF_64].served;
    void *first = hak_malloc(64);
    hak_free(first);
    assert_ptr_equal(hak_malloc(50), first); /* A request of any size of the class gets the newest block. */
    hak_free(first);
    assert_int_equal(counted(cache, HK_THREAD_misses), misses);
    assert_int_equal(cache->hot.bins[CLASS_OF_64].served, served);
    hk_gate_shut(HK_SHUT_TO_COUNT);
    assert_ptr_equal(hak_malloc(64), first);
    hak_free(first);
    assert_int_equal(counted(cache, HK_THREAD_misses), misses);
    assert_int_equal(cache->hot.bins[CLASS_OF_64].served, served + 1);
    hk_gate_release(HK_SHUT_TO_COUNT);
    assert_ptr_equal(hak_malloc(64), first);
    assert_int_equal(cache->hot.bins[CLASS_OF_64].served, served + 1);
    hak_free(first);
}

UNIT_TEST(bins_grow)
{
    struct hk_tcache *cache = start();
    struct hk_bin *bin = &cache->hot.bins[CLASS_OF_64];
    size_t last = 0;
    for (int round = 0; round < 20; round++) {
        get_many(64, 2000);
        assert_true(hk_bin_capacity(bin) >= last);
        last = hk_bin_capacity(bin);
        free_many(2000);
        assert_true(hk_bin_items(bin) <= hk_bin_capacity(bin));
    }
    assert_int_equal(last, hk_classes[CLASS_OF_64].cap);
    assert_true(counted(cache, HK_THREAD_overflows) > 0);
    unit_heap_holds(0);
}

static void let_a_pass_come(void);

/* A bin does not grow if it runs empty or full less often than hot_turns says. An epoch begins a new count. */
UNIT_TEST(bins_that_seldom_turn_do_not_grow)
{
    struct hk_tcache *cache = start();
    const struct hk_bin *bin = &cache->hot.bins[CLASS_OF_64];
    SET_KNOB(hot_turns, 6);
    get_many(64, 1);
    size_t first = hk_bin_capacity(bin), turns = (size_t)cache->turns[CLASS_OF_64], at = 1;
    assert_int_equal(turns, 1);
    for (; cache->turns[CLASS_OF_64] < 5; at++)
        blocks[at] = hak_malloc(64);
    assert_int_equal(hk_bin_capacity(bin), first);
    let_a_pass_come();
    assert_int_equal(cache->turns[CLASS_OF_64], 0);
    for (; cache->turns[CLASS_OF_64] < 5; at++)
        blocks[at] = hak_malloc(64);
    assert_int_equal(hk_bin_capacity(bin), first);
    for (; cache->turns[CLASS_OF_64] < 6; at++)
        blocks[at] = hak_malloc(64);
    assert_true(hk_bin_capacity(bin) > first);
    free_many(at);
}

UNIT_TEST(caps)
{
    hk_options.bin_cap = 3;
    struct hk_tcache *cache = start();
    for (int round = 0; round < 10; round++) {
        get_many(64, 500);
        free_many(500);
    }
    assert_int_equal(hk_bin_capacity(&cache->hot.bins[CLASS_OF_64]), 3);
    unit_heap_holds(0);
}

/* The budget limits the sum of the capacities. Small blocks may exceed it by half. Each bin has room for at least one block. */
UNIT_TEST(budget)
{
    SET_KNOB(thread_cache, 256 * HK_KIB);
    struct hk_tcache *cache = start();
    size_t single_places = 0;
    for (int round = 0; round < 5; round++)
        for (unsigned class = 0; class < HK_CLASSES; class ++) {
            get_many(hk_classes[class].size, 40);
            free_many(40);
        }
    size_t granted = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        size_t capacity = hk_bin_capacity(&cache->hot.bins[class]);
        assert_true(capacity >= 1);
        granted += capacity * hk_classes[class].size;
        single_places += capacity == 1 ? hk_classes[class].size : 0;
    }
    assert_int_equal(granted, cache->granted);
    assert_true(granted <= hk_options.thread_cache * 3 / 2 + single_places);
    unit_heap_holds(0);
}

UNIT_TEST(large_blocks_leave_small_ones_their_budget)
{
    SET_KNOB(thread_cache, HK_MIB);
    struct hk_tcache *cache = start();
    for (int round = 0; round < 5; round++)
        for (size_t size = 16 * HK_KIB; size <= 128 * HK_KIB; size *= 2) {
            get_many(size, 40);
            free_many(40);
        }
    assert_true(cache->granted > hk_options.thread_cache * 7 / 8);
    for (int round = 0; round < 20; round++) {
        get_many(1024, 400);
        free_many(400);
    }
    assert_int_equal(hk_bin_capacity(&cache->hot.bins[hk_class_of(1024)]), hk_classes[hk_class_of(1024)].cap);
    unit_heap_holds(0);
}

/* When a realloc makes a large block grow, idle memory is reclaimed as for any growth of the heap. */
UNIT_TEST(growth_by_realloc)
{
    SET_KNOB(purge_delay, HK_PATIENT_MS + 1); /* excess stays */
    start();
    get_many(256 * HK_KIB, 200);
    free_many(200);
    hk_tcache_trim(hk_tcache_self());
    fake_os_pass_ms(100);
    char *buffer = hak_malloc(2 * HK_MIB);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purges]), 0);
    for (size_t mib = 4; mib < 32; mib += 2) {
        fake_os_pass_ms(1);
        assert_non_null(buffer = hak_realloc(buffer, mib * HK_MIB));
    }
    assert_true(hk_load(hk_global_counts[HK_GLOBAL_purges]) > 0);
    hak_free(buffer);
    unit_heap_holds(0);
}

static void get_one_and_free(void *unused)
{
    (void)unused;
    hak_free(hak_malloc(64));
}

static void wait_for_a_look(void)
{
    for (int i = 0; i < 16; i++)
        hak_free(hak_malloc(2 * HK_MIB)); /* Each of these calls is slow. */
}

/* A thread that has a larger share of the heap has a larger budget. The budget shrinks when this share shrinks. */
UNIT_TEST(budget_of_a_large_heap)
{
    enum { LARGE = 1000 };
    SET_KNOB(purge_delay, 0);
    struct hk_tcache *cache = start();
    assert_int_equal(cache->budget, hk_options.thread_cache);
    unit_in_thread(get_one_and_free, NULL); /* An ended thread has no share. */
    get_many(256 * HK_KIB, LARGE);
    wait_for_a_look();
    assert_int_equal(cache->budget, 3 * hk_options.thread_cache); /* The blocks have 250 MiB. */
    free_many(LARGE);
    hk_tcache_trim(cache);
    hak_malloc_trim(0);
    wait_for_a_look();
    assert_int_equal(cache->budget, hk_options.thread_cache);
    unit_heap_holds(0);
}

/* If there is no memory for the arrays of bins, blocks are served one by one. */
UNIT_TEST(no_arrays)
{
    struct hk_tcache *cache = start();
    hak_free(hak_malloc(3000));
    fake_os_refuse(fake_refuse_all);
    while (hk_bin_grow(cache, CLASS_OF_64))
        continue;
    size_t got = 0;
    while (got < MANY && (blocks[got] = hak_malloc(1000)) != NULL)
        got++;
    assert_true(got > 0);
    unit_heap_holds(got);
    free_many(got);
    fake_os_refuse(NULL);
    get_many(1000, 100);
    free_many(100);
    unit_heap_holds(0);
}

UNIT_TEST(trim)
{
    struct hk_tcache *cache = start();
    get_many(200, 1000);
    free_many(1000);
    hk_tcache_trim(cache);
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.sum.slabs, 0);
    assert_int_equal(heap_stats.sum.in_bins, 0);
    assert_int_equal(cache->granted, 0);
    unit_heap_holds(0);
}

static void free_all(void *count) { free_many(*(size_t *)count); }
static void get_and_leave(void *count) { get_many(100, *(size_t *)count); }

/* Makes slow calls until this thread has seen an epoch. The calls use a class that the tests do not use. */
static void let_a_pass_come(void)
{
    static void *others[MANY];
    fake_os_pass_ms(1000);
    for (size_t i = 0; i < MANY; i++)
        others[i] = hak_malloc(32);
    for (size_t i = 0; i < MANY; i++)
        hak_free(others[i]);
}

/* A bin that serves no blocks first returns its blocks to the slabs, and later frees its array. If it is used again, it grows again. */
UNIT_TEST(idle_bins)
{
    struct hk_tcache *cache = start();
    const struct hk_bin *bin = &cache->hot.bins[CLASS_OF_224];
    let_a_pass_come();
    get_many(200, 1000);
    free_many(1000);
    hak_free(hak_malloc(200)); /* The bin has served a block since the last epoch. */
    assert_true(hk_bin_items(bin) > 0);
    let_a_pass_come();
    assert_true(hk_bin_items(bin) > 0); /* The bin keeps its blocks because it was used before this epoch. */
    let_a_pass_come();
    assert_int_equal(hk_bin_items(bin), 0);
    assert_true(hk_bin_capacity(bin) > 0);
    let_a_pass_come();
    assert_int_equal(hk_bin_capacity(bin), 0);
    assert_int_equal(cache->depot.classes[CLASS_OF_224].blocks, 0);
    get_many(200, 1000);
    assert_true(hk_bin_capacity(bin) >= 127);
    unit_heap_holds(1000);
    free_many(1000);
}

/* If the burst of one class is over, another class that grows uses the memory of the first class's magazines. */
UNIT_TEST(burst_pays_for_another_class)
{
    struct hk_tcache *cache = start();
    SET_KNOB(huge_pages_from, 0);
    for (unsigned round = 0; round < 3; round++) { /* The bin grows to its full length. */
        get_many(1000, MANY);
        free_many(MANY);
    }
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    size_t kept = cache->depot.bytes, warm = hk_page_heap_dirty();
    assert_true(kept > MANY * 1000 / 2);
    get_many(3000, kept / 2 / 3000);
    assert_true(cache->depot.bytes < kept);
    assert_true(hk_page_heap_dirty() <= warm + kept / 8);
    free_many(kept / 2 / 3000);
}

/* A free may find a bin full, and an epoch may then empty this bin or free its array, before the free continues. */
UNIT_TEST(pass_amid_overflow)
{
    start();
    get_many(200, MANY);
    for (size_t i = 0; i < MANY; i++) {
        fake_os_pass_ms(200);
        hak_free(blocks[i]);
    }
    unit_heap_holds(0);
}

static size_t bytes_of_slabs(void)
{
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    return heap_stats.sum.slabs;
}

/* Blocks that another thread freed are used again before a new slab is made. */
UNIT_TEST(remote)
{
    struct hk_tcache *cache = start();
    size_t count = 3000;
    get_many(64, count);
    size_t slabs = bytes_of_slabs();
    unit_in_thread(free_all, &count);
    unit_heap_holds(0);
    get_many(64, count);
    assert_int_equal(bytes_of_slabs(), slabs);
    assert_true(counted(cache, HK_THREAD_remote_drained) > 0);
    unit_heap_holds(count);
    free_many(count);
}

UNIT_TEST(thread_leaves_blocks)
{
    start();
    size_t count = 1000;
    unit_in_thread(get_and_leave, &count);
    unit_heap_holds(count);
    assert_true(hk_load(hk_global_counts[HK_GLOBAL_slabs_abandoned]) > 0);
    free_many(count);
    hak_malloc_trim(0);
    unit_heap_holds(0);
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.sum.slabs, 0);
    assert_int_equal(heap_stats.threads, 1);
}

static void note_self(void *seen)
{
    unit_start();
    *(struct hk_tcache **)seen = hk_tcache_self();
}

UNIT_TEST(caches_are_used_again)
{
    start();
    struct hk_tcache *first = NULL, *second = NULL;
    unit_in_thread(note_self, &first);
    unit_in_thread(note_self, &second);
    assert_ptr_equal(first, second);
    assert_false(first->alive);
    assert_ptr_equal(hk_tcache_by_id(first->owner.id), first);
}

static void work_after_end(void *unused)
{
    (void)unused;
    void *before = hak_malloc(80);
    hk_tcache_end();
    assert_null(hk_tcache_self());
    assert_true(hk_tcache_ended());
    void *after = hak_malloc(80), *more = hak_calloc(1, 5000), *large = hak_malloc(2 * HK_MIB);
    assert_true(before != NULL && after != NULL && more != NULL && large != NULL);
    hak_free(before);
    hak_free(after);
    hak_free(more);
    hak_free(large);
}

UNIT_TEST(after_the_end)
{
    start();
    unit_in_thread(work_after_end, NULL);
    unit_heap_holds(0);
}

static void resize_anothers(void *block)
{
    unit_start();
    assert_false(hk_tcache_resize(hk_tcache_self(), block, 131072));
}

/* A bin keeps no blocks that realloc has brought into a class which the program does not request. */
/* In a small heap, freed large blocks are not kept in bins, so that another class can use their memory at once. */
UNIT_TEST(rare_large_blocks_share_their_memory)
{
    struct hk_tcache *cache = start();
    static const size_t sizes[] = {HK_MEDIUM_MAX, 900000, 786432, 655360};
    size_t before = hk_page_heap_dirty();
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hak_free(hak_malloc(sizes[i]));
        assert_int_equal(hk_bin_capacity(&cache->hot.bins[hk_class_of(sizes[i])]), 0);
    }
    assert_true(hk_page_heap_dirty() <= before + HK_MEDIUM_MAX);
    unit_heap_holds(0);
}

/* A class that is used often gets a bin all the same, and so does each class in a large heap. */
UNIT_TEST(large_blocks_of_use_get_bins)
{
    struct hk_tcache *cache = start();
    const struct hk_bin *often = &cache->hot.bins[hk_class_of(HK_MEDIUM_MAX)],
                        *once = &cache->hot.bins[CLASS_OF_524288];
    unsigned pairs = 0;
    for (; hk_bin_capacity(often) == 0 && pairs < 100; pairs++)
        hak_free(hak_malloc(HK_MEDIUM_MAX));
    assert_true(pairs > 1 && pairs < 100);
    hak_free(hak_malloc(524288));
    assert_int_equal(hk_bin_capacity(once), 0);
    get_many(262144, 400);
    hak_free(hak_malloc(524288));
    assert_int_equal(hk_bin_items(once), 1);
    free_many(400);
}

UNIT_TEST(a_bin_that_serves_nothing_does_not_grow)
{
    struct hk_tcache *cache = start();
    const struct hk_bin *bin = &cache->hot.bins[CLASS_OF_262144];
    get_many(524288, 6);
    for (unsigned i = 0; i < 6; i++)
        assert_ptr_equal(hak_realloc(blocks[i], 250000), blocks[i]);
    free_many(6);
    assert_int_equal(hk_bin_capacity(bin), 0);
    get_many(262144, 2);
    free_many(2);
    assert_true(hk_bin_items(bin) > 0);
    unit_heap_holds(0);
}

UNIT_TEST(resize)
{
    struct hk_tcache *cache = start();
    char *block = hak_malloc(65536);
    memset(block, 7, 65536);
    assert_true(hk_tcache_resize(cache, block, 131072));
    assert_int_equal(hak_malloc_usable_size(block), 131072);
    assert_int_equal(counted(cache, HK_THREAD_resized_in_place), 1);
    assert_false(hk_tcache_resize(NULL, block, 200000));
    assert_false(hk_tcache_resize(cache, block, 2 * HK_MIB));
    void *another = hak_malloc(65536);
    unit_in_thread(resize_anothers, another);
    hak_free(another);
    hak_free(block);
    unit_heap_holds(0);
}

/* When bins grow, their old arrays are freed. */
UNIT_TEST(bins_leave_no_metadata)
{
    start();
    size_t in_use = 0;
    for (int round = 0; round < 50; round++) {
        for (unsigned class = 0; class < CLASS_OF_4096; class ++) {
            get_many(hk_classes[class].size, 300);
            free_many(300);
        }
        hak_malloc_trim(0);
        size_t now = hk_meta_mapped() - hk_meta_unused();
        assert_true(round < 2 || now <= in_use);
        in_use = now;
    }
}

/* If a thread did not run for a long time, its first tick empties its bins. */
UNIT_TEST(rested)
{
    struct hk_tcache *cache = start();
    for (unsigned class = 0; class < CLASS_OF_4096; class ++) {
        get_many(hk_classes[class].size, 300);
        free_many(300);
    }
    fake_os_pass_ms(1000 * 1000);
    hk_tcache_grew(cache, HK_MEDIUM_MAX);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        assert_int_equal(hk_bin_items(&cache->hot.bins[class]), 0);
}

/* hk_depot_take() takes a magazine only if the caller's array has room for all of its blocks. An epoch flushes the magazines of classes that were
 * not used since the previous epoch. */
UNIT_TEST(magazines)
{
    void *taken[64];
    struct hk_tcache *cache = start();
    get_many(64, 64);
    assert_true(hk_depot_put(&cache->depot, CLASS_OF_64, blocks, 32));
    assert_true(hk_depot_put(&cache->depot, CLASS_OF_64, blocks + 32, 32));
    assert_int_equal(hk_depot_take(&cache->depot, CLASS_OF_64, taken, 31), 0);
    assert_int_equal(hk_depot_take(&cache->depot, CLASS_OF_64, taken, 64), 32);
    hk_depot_age(cache); /* The magazine stays because its class was used. */
    assert_int_equal(cache->depot.classes[CLASS_OF_64].blocks, 32);
    hk_depot_age(cache);
    assert_int_equal(cache->depot.classes[CLASS_OF_64].blocks, 0);
    assert_int_equal(cache->depot.bytes, 0);
    for (int i = 0; i < 32; i++)
        hak_free(taken[i]);
    unit_heap_holds(0);
}

static void double_free_found_by_trim(void *block)
{
    hak_free(block);
    hak_free(block);
    hak_malloc_trim(0);
}

static void twice_in_a_row(void *block)
{
    void *other = hak_malloc(64);
    hak_free(block);
    hak_free(block);
    hak_free(other);
    assert_ptr_equal(hak_malloc(64), other);
    assert_null(hk_tcache_alloc(hk_tcache_self(), CLASS_OF_64, 64)); /* does not return */
}

static void check_at_exit(void *block)
{
    void *other = hak_malloc(64);
    hak_free(block);
    hak_free(other);
    hk_bins_check(hk_tcache_self());
    hak_free(block);
    hk_bins_check(hk_tcache_self());
}

static void check_unaligned(void *block)
{
    hak_free((char *)block + 8);
    hk_bins_check(hk_tcache_self());
}

static void free_inside(void *block)
{
    hak_free((char *)block + 16);
    hak_malloc_trim(0);
}

UNIT_TEST(mistakes)
{
    start();
    void *block = hak_malloc(64);
    int local = 0;
    unit_dies(double_free_found_by_trim, block, "hakmem: free(), found later: block already free: address 0x");
    unit_dies(twice_in_a_row, block, "hakmem: free(), found later: block already free: address 0x");
    unit_dies(check_at_exit, block, "hakmem: free(), found later: block already free: address 0x");
    unit_dies(check_unaligned, block, "hakmem: free(), found later: pointer inside a block: address 0x");
    unit_dies(free_inside, block, "hakmem: free(), found later: pointer inside a block: address 0x");
    unit_dies((void (*)(void *))hak_free, &local, "hakmem: free(): pointer not from this allocator: address 0x");
    hak_free(block);
}

/* A block in the break heap belongs to another allocator. A free does not change the block, and is counted. */
UNIT_TEST(foreign)
{
    static char heap[4096];
    start();
    fake_os.break_start = (uintptr_t)heap;
    fake_os.break_end = (uintptr_t)heap + sizeof heap;
    hak_free(heap + 64);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_foreign_frees]), 1);
    assert_int_equal(hak_malloc_usable_size(heap + 64), 0);
    memset(heap, 'x', sizeof heap);
    char *moved = hak_realloc(heap + 64, 100);
    assert_non_null(moved);
    assert_int_equal(moved[99], 'x');
    hak_free(moved);
    unit_dies((void (*)(void *))hak_free, heap + sizeof heap, "pointer not from this allocator");
    unit_heap_holds(0);
}

enum { MOVED_SIZE = 1024, MOVED_COUNT = 1024, MOVED_KEPT = 4 };

static size_t slabs_of(unsigned class)
{
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    return heap_stats.classes[class].slabs;
}

/* Moves each block once if it should move. Returns the number of moved blocks. */
static size_t move_all(size_t count)
{
    size_t moved = 0;
    for (size_t i = 0; i < count; i++)
        if (hak_should_move(blocks[i])) {
            void *to = hak_malloc(MOVED_SIZE);
            assert_ptr_not_equal(hk_slab_at((uintptr_t)to), hk_slab_at((uintptr_t)blocks[i]));
            memcpy(to, blocks[i], MOVED_SIZE);
            hak_free(blocks[i]);
            blocks[i] = to;
            moved++;
        }
    return moved;
}

static void get_numbered(void *unused)
{
    (void)unused;
    get_many(MOVED_SIZE, MOVED_COUNT);
    for (size_t i = 0; i < MOVED_COUNT; i++)
        memset(blocks[i], (int)i, MOVED_SIZE);
}

static void keep_some(void)
{
    for (size_t i = 0; i < MOVED_COUNT; i++)
        if (i % MOVED_KEPT != 0)
            hak_free(blocks[i]);
        else
            blocks[i / MOVED_KEPT] = blocks[i];
}

static void move_until_none(void)
{
    size_t passes = 1;
    while (move_all(MOVED_COUNT / MOVED_KEPT) > 0)
        passes++;
    assert_in_range(passes, 1, 4);
}

/* Moves blocks until none should move. They then fill as few slabs as possible. */
static void assert_packed(void)
{
    hak_malloc_trim(0);
    assert_int_equal(slabs_of(CLASS_OF_1024), MOVED_COUNT / 64);
    move_until_none();
    hak_malloc_trim(0);
    assert_int_equal(slabs_of(CLASS_OF_1024), MOVED_COUNT / 64 / MOVED_KEPT);
    for (size_t i = 0; i < MOVED_COUNT / MOVED_KEPT; i++)
        for (size_t byte = 0; byte < MOVED_SIZE; byte++)
            assert_int_equal(((unsigned char *)blocks[i])[byte], i * MOVED_KEPT % 256);
    free_many(MOVED_COUNT / MOVED_KEPT);
    unit_heap_holds(0);
}

UNIT_TEST(moves_empty_slabs)
{
    start();
    get_numbered(NULL);
    keep_some();
    assert_packed();
}

/* The thread adopts the slabs of an ended thread when it asks for their blocks. */
UNIT_TEST(moves_empty_abandoned_slabs)
{
    start();
    unit_keep_what_threads_leave();
    unit_in_thread(get_numbered, NULL);
    keep_some();
    assert_packed();
}

/* The free blocks in the bin and in the depot count as used. So fewer blocks move than after a trim, but the moves end. */
UNIT_TEST(moves_with_full_bins)
{
    start();
    get_numbered(NULL);
    keep_some();
    move_until_none();
    hak_malloc_trim(0);
    move_until_none();
    hak_malloc_trim(0);
    assert_int_equal(slabs_of(CLASS_OF_1024), MOVED_COUNT / 64 / MOVED_KEPT);
}

UNIT_TEST(moves_without_bins)
{
    SET_KNOB(thread_cache, 0);
    start();
    get_numbered(NULL);
    keep_some();
    assert_packed();
}

/* Asks for addresses that need no move: of dense slabs, without a slab, and of freed blocks, even if the slab was released. */
UNIT_TEST(stays)
{
    start();
    int local = 0;
    void *large = hak_malloc(3 * HK_MIB), *medium = hak_malloc(HK_FINE_MAX + 1);
    struct hak_heap *heap = hak_heap_create("", 0);
    void *in_heap = hak_heap_malloc(heap, MOVED_SIZE);
    get_many(MOVED_SIZE, 2 * 64);
    for (size_t i = 0; i < 2 * 64; i += 16)
        hak_free(blocks[i]);
    hak_malloc_trim(0);
    const void *const staying[] = {NULL, &local, large, (char *)large + 1, medium, in_heap, blocks[1], blocks[127]};
    for (size_t i = 0; i < sizeof staying / sizeof staying[0]; i++)
        assert_int_equal(hak_should_move(staying[i]), 0);
    for (size_t i = 0; i < 64; i++)
        if (i % 16 != 0)
            hak_free(blocks[i]);
    for (size_t i = 0; i < 128; i++)
        (void)hak_should_move(blocks[i % 64]);
    unit_in_thread((void (*)(void *))hak_free, blocks[127]);
}

static uint64_t slabs_made(void) { return hk_load(hk_global_counts[HK_GLOBAL_slabs_made]); }

/* When a slab is made for another class, blocks that another thread freed are drained. The drained bytes are at least those of the new slab,
 * unless fewer bytes wait. They are at most those of the new slab and one drained slab. */
static void drained_for_slabs(size_t size, size_t count, size_t other_size)
{
    struct hk_tcache *cache = start();
    void *others[64];
    size_t slab_bytes = hk_classes[hk_class_of(other_size)].slab_bytes;
    get_many(size, count);
    unit_in_thread(free_all, &count);
    cache->until_tick = INT32_MAX; /* No tick drains anything. */
    for (size_t i = 0, left = count * size; i < 64; i++) {
        uint64_t made = slabs_made(), drained = counted(cache, HK_THREAD_remote_drained);
        others[i] = hak_malloc(other_size);
        size_t back = (counted(cache, HK_THREAD_remote_drained) - drained) * size;
        assert_in_range(back, slabs_made() > made ? (slab_bytes < left ? slab_bytes : left) : 0,
                        slab_bytes + hk_classes[hk_class_of(size)].slab_bytes);
        left -= back;
    }
    for (size_t i = 0; i < 64; i++)
        hak_free(others[i]);
    unit_heap_holds(0);
}

UNIT_TEST(drained_for_a_slab) { drained_for_slabs(1024, 2000, 8192); }
UNIT_TEST(large_blocks_drained_for_a_slab) { drained_for_slabs(65536, 256, 1024 * 1024); }

enum { STOLEN_SIZE = 1024, STOLEN_COUNT = 3000, SLEEP_MS = 11 };

/* Describes a thread that needs blocks, and what it took from other threads. */
struct theft {
    size_t wanted;
    uint64_t stolen;
    size_t others; /* number of blocks that lie in slabs of other owners */
};

static void *booty[MANY];

static void take_booty(struct theft *theft)
{
    unit_start();
    struct hk_tcache *cache = hk_tcache_self();
    uint64_t before = counted(cache, HK_THREAD_remote_stolen);
    for (int i = 0; i < 100; i++) /* These calls make the thread read the clock. */
        hak_free(hak_malloc(hk_classes[i % 40].size));
    for (size_t i = 0; i < theft->wanted; i++) {
        booty[i] = hak_malloc(STOLEN_SIZE);
        theft->others += hk_entry_owner(hk_page_map_lookup((uintptr_t)booty[i])) != cache->owner.id;
    }
    theft->stolen = counted(cache, HK_THREAD_remote_stolen) - before;
}

static void drop_booty(const struct theft *theft)
{
    for (size_t i = 0; i < theft->wanted; i++)
        hak_free(booty[i]);
}

static void steal(void *theft) { take_booty(theft); }

static void steal_and_free(void *theft)
{
    take_booty(theft);
    drop_booty(theft);
}

static void steal_and_trim(void *theft)
{
    steal_and_free(theft);
    hak_malloc_trim(0);
}

/* The calling thread allocates blocks, another thread frees them, and the calling thread sleeps for `ms` milliseconds. */
static struct hk_tcache *start_with_booty(uint64_t ms)
{
    size_t count = STOLEN_COUNT;
    struct hk_tcache *cache = start();
    get_many(STOLEN_SIZE, count);
    unit_in_thread(free_all, &count);
    fake_os_pass_ms(ms);
    return cache;
}

/* Checks that no block was lost, because every slab can be released. */
static void expect_all_home(void)
{
    static struct hk_heap_stats heap_stats;
    unit_heap_holds(0);
    hak_malloc_trim(0);
    unit_heap_holds(0);
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.sum.slabs, 0);
}

UNIT_TEST(stolen_from_who_sleeps)
{
    struct theft theft = {.wanted = 1000};
    start_with_booty(SLEEP_MS);
    unit_in_thread(steal_and_free, &theft);
    assert_true(theft.stolen > 0);
    assert_true(theft.others > theft.wanted / 2);
    expect_all_home();
}

/* Slabs of an owner that has slept for long are taken over, so that later frees of their blocks are hits. */
UNIT_TEST(taken_over_from_who_sleeps)
{
    struct theft theft = {.wanted = 1000};
    start_with_booty(SLEEP_MS + HK_TICK_MS);
    hk_slab_lists_shared = true;
    uint64_t before = hk_load(hk_global_counts[HK_GLOBAL_slabs_taken_over]);
    unit_in_thread(steal_and_free, &theft);
    assert_true(theft.stolen > 0);
    assert_int_equal(theft.others, 0);
    assert_true(hk_load(hk_global_counts[HK_GLOBAL_slabs_taken_over]) >=
                before + theft.wanted * STOLEN_SIZE / HK_SLICE);
    expect_all_home();
}

static _Atomic bool xthefts_end;

static void *steal_often(void *unused)
{
    unit_start();
    for (unsigned i = 0; i < 300; i++) {
        void *own[150];
        fake_os_pass_ms(HK_TICK_MS + 1);
        for (unsigned k = 0; k < 150; k++)
            own[k] = hak_malloc(STOLEN_SIZE);
        for (unsigned k = 0; k < 150; k++)
            hak_free(own[k]);
        hak_malloc_trim(0);
    }
    atomic_store(&xthefts_end, true);
    return unused;
}

static void *free_half(void *unused)
{
    unit_start();
    for (unsigned i = 0; i < 600; i += 2)
        hak_free(blocks[i]);
    return unused;
}

/* The owner allocates and frees while another thread takes its slabs over, with the blocks that a third thread has freed. */
UNIT_TEST(taken_over_from_who_wakes)
{
    pthread_t thief, other;
    start();
    hk_slab_lists_shared = true;
    assert_int_equal(pthread_create(&thief, NULL, steal_often, NULL), 0);
    while (!atomic_load(&xthefts_end)) {
        get_many(STOLEN_SIZE, 600);
        assert_int_equal(pthread_create(&other, NULL, free_half, NULL), 0);
        pthread_join(other, NULL);
        for (unsigned i = 1; i < 600; i += 2)
            hak_free(blocks[i]);
    }
    pthread_join(thief, NULL);
    expect_all_home();
}

UNIT_TEST(not_from_who_is_awake)
{
    struct theft theft = {.wanted = 1000};
    start_with_booty(SLEEP_MS - 2);
    unit_in_thread(steal_and_free, &theft);
    assert_int_equal(theft.stolen, 0);
    assert_int_equal(theft.others, 0);
    expect_all_home();
}

/* If an owner has less than four slabs' worth of a class in its inbox, other threads leave it alone. */
UNIT_TEST(little_is_not_stolen)
{
    struct theft theft = {.wanted = 1000};
    size_t few = 3 * HK_SLICE / STOLEN_SIZE;
    start();
    get_many(STOLEN_SIZE, STOLEN_COUNT);
    unit_in_thread(free_all, &few);
    fake_os_pass_ms(SLEEP_MS);
    unit_in_thread(steal_and_free, &theft);
    assert_int_equal(theft.stolen, 0);
    for (size_t i = few; i < STOLEN_COUNT; i++)
        hak_free(blocks[i]);
    expect_all_home();
}

/* Tests a thread that ends or trims while its bin holds stolen blocks. */
UNIT_TEST(stolen_and_never_used)
{
    struct theft one = {.wanted = 1}, other = {.wanted = 1};
    start_with_booty(SLEEP_MS);
    unit_in_thread(steal_and_free, &one);
    unit_heap_holds(0);
    unit_in_thread(steal_and_trim, &other);
    assert_true(one.stolen > 0 && other.stolen > 0);
    expect_all_home();
}

/* If other threads free stolen blocks, each block returns to the owner of its slab. */
UNIT_TEST(stolen_and_left)
{
    struct theft theft = {.wanted = 1000};
    start_with_booty(SLEEP_MS);
    unit_in_thread(steal, &theft);
    assert_true(theft.stolen > 0);
    unit_heap_holds(theft.wanted);
    drop_booty(&theft);
    expect_all_home();
}

static _Atomic int step;

static void step_to(int to) { atomic_store(&step, to); }
static void step_wait(int for_step)
{
    while (atomic_load(&step) != for_step)
        sched_yield();
}

static void *sleeps_and_ends(void *unused)
{
    unit_start();
    get_many(STOLEN_SIZE, STOLEN_COUNT);
    step_to(1);
    step_wait(2);
    return unused;
}

/* The owner ends while its blocks lie in the bin of the thread that stole them. */
UNIT_TEST(stolen_from_who_ends)
{
    pthread_t victim;
    struct theft theft = {.wanted = 1000};
    start();
    assert_int_equal(pthread_create(&victim, NULL, sleeps_and_ends, NULL), 0);
    step_wait(1);
    free_many(STOLEN_COUNT);
    fake_os_pass_ms(SLEEP_MS);
    take_booty(&theft);
    assert_true(theft.stolen > 0);
    unit_heap_holds(theft.wanted);
    step_to(2);
    pthread_join(victim, NULL);
    unit_heap_holds(theft.wanted);
    drop_booty(&theft);
    expect_all_home();
}

/* If the system refuses memory to a thread, this thread takes all blocks from the inboxes of all threads, asleep or not. */
static void take_everything(void *got)
{
    hak_free(hak_malloc(STOLEN_SIZE));
    struct hk_tcache *cache = hk_tcache_self();
    unsigned class = hk_class_of(STOLEN_SIZE);
    hk_bins_empty(cache, true);
    hk_tcache_steal_all(cache);
    *(size_t *)got = hk_bin_items(&cache->hot.bins[class]);
}

UNIT_TEST(everything_is_stolen_in_need)
{
    size_t got = 0;
    start_with_booty(0);
    unit_in_thread(take_everything, &got);
    assert_true(got > 0);
    expect_all_home();
}

/* Before a slab is made, a free block of a larger class serves: one that W_MAX allows, that is aligned, and that is of the same kind. */
UNIT_TEST(served_by_a_larger_class)
{
    hk_options.small_fit = 140;
    hk_options.medium_fit = 160;
    start();
    hk_classes_begin();
    void *large = hak_malloc(6144), *odd = hak_malloc(81920), *medium = hak_malloc(98304);
    hak_free(large);
    hak_free(odd);
    hak_free(medium);
    size_t slabs = hk_load(hk_global_counts[HK_GLOBAL_slabs_made]);
    void *block = hak_malloc(4700);
    assert_ptr_equal(block, large);
    assert_int_equal(hak_malloc_usable_size(block), 6144);
    assert_int_equal(hk_tcaches_counted(HK_THREAD_fitted), 1);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_slabs_made]), slabs);
    hak_free_sized(block, 4700);
    assert_ptr_equal(hak_malloc(6000), large);
    void *zeroed = hak_calloc(1, 70000);
    assert_ptr_equal(zeroed, odd);
    hak_free(zeroed);
    void *aligned = hak_aligned_alloc(65536, 65536);
    assert_int_equal((uintptr_t)aligned % 65536, 0);
    bool fits = (uintptr_t)odd % 65536 == 0 || (uintptr_t)medium % 65536 == 0;
    assert_int_equal(hk_tcaches_counted(HK_THREAD_fitted), 1 + fits);
    hak_free(aligned);
    void *of_slab = hak_malloc(33000); /* 40 KiB: 80 KiB would be more than 160 % */
    assert_int_equal(hk_tcaches_refilled(CLASS_OF_40960, HK_SOURCE_NEW), 1);
    hak_free(of_slab);
    unit_heap_holds(1);
}

/* A block of 5 KiB that does not begin at a page cannot serve an aligned request of 4 KiB. */
UNIT_TEST(an_aligned_request_gets_no_unaligned_block)
{
    start();
    hk_options.small_fit = 140;
    hk_classes_begin();
    get_many(5120, 4);
    size_t odd = (uintptr_t)blocks[0] % 4096 != 0 ? 0 : 1;
    assert_int_not_equal((uintptr_t)blocks[odd] % 4096, 0);
    hak_free(blocks[odd]);
    assert_int_equal((uintptr_t)hak_aligned_alloc(4096, 4096) % 4096, 0);
    assert_int_equal(hk_tcaches_counted(HK_THREAD_fitted), 0);
}

UNIT_TEST(capacities_from_the_start)
{
    struct hk_tcache *cache = start();
    hk_options.bins = "64x255,4096x1";
    hk_classes_begin();
    hak_free(hak_malloc(64));
    hak_free(hak_malloc(4096));
    assert_int_equal(hk_bin_capacity(&cache->hot.bins[CLASS_OF_64]), 255);
    assert_int_equal(hk_bin_capacity(&cache->hot.bins[CLASS_OF_4096]), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits),
        cmocka_unit_test(bins_grow),
        cmocka_unit_test(bins_that_seldom_turn_do_not_grow),
        cmocka_unit_test(caps),
        cmocka_unit_test(burst_pays_for_another_class),
        cmocka_unit_test(budget),
        cmocka_unit_test(large_blocks_leave_small_ones_their_budget),
        cmocka_unit_test(budget_of_a_large_heap),
        cmocka_unit_test(growth_by_realloc),
        cmocka_unit_test(no_arrays),
        cmocka_unit_test(trim),
        cmocka_unit_test(idle_bins),
        cmocka_unit_test(pass_amid_overflow),
        cmocka_unit_test(remote),
        cmocka_unit_test(thread_leaves_blocks),
        cmocka_unit_test(caches_are_used_again),
        cmocka_unit_test(after_the_end),
        cmocka_unit_test(rare_large_blocks_share_their_memory),
        cmocka_unit_test(large_blocks_of_use_get_bins),
        cmocka_unit_test(a_bin_that_serves_nothing_does_not_grow),
        cmocka_unit_test(resize),
        cmocka_unit_test(magazines),
        cmocka_unit_test(rested),
        cmocka_unit_test(bins_leave_no_metadata),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(foreign),
        cmocka_unit_test(moves_empty_slabs),
        cmocka_unit_test(moves_empty_abandoned_slabs),
        cmocka_unit_test(moves_with_full_bins),
        cmocka_unit_test(moves_without_bins),
        cmocka_unit_test(stays),
        cmocka_unit_test(drained_for_a_slab),
        cmocka_unit_test(large_blocks_drained_for_a_slab),
        cmocka_unit_test(stolen_from_who_sleeps),
        cmocka_unit_test(taken_over_from_who_sleeps),
        cmocka_unit_test(taken_over_from_who_wakes),
        cmocka_unit_test(not_from_who_is_awake),
        cmocka_unit_test(little_is_not_stolen),
        cmocka_unit_test(stolen_and_never_used),
        cmocka_unit_test(stolen_and_left),
        cmocka_unit_test(everything_is_stolen_in_need),
        cmocka_unit_test(stolen_from_who_ends),
        cmocka_unit_test(served_by_a_larger_class),
        cmocka_unit_test(an_aligned_request_gets_no_unaligned_block),
        cmocka_unit_test(capacities_from_the_start),
    };
    return cmocka_run_group_tests_name("tcache", tests, NULL, NULL);
}
