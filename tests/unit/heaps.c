/* Tests the parts of the program's own heaps: slabs that share slices, caches and their generations, shelves, limits, and the end of a heap. */
#include "unit/unit.h"

#include <pthread.h>

#include "hakmem.h"
#include "heaps/heap_cache.h"
#include "heaps/heap_slabs.h"
#include "heaps/heap_state.h"
#include "heaps/heaps.h"
#include "slab/slab.h"
#include "support/pattern.h"
#include "tcache/tcache.h"

static struct hak_heap *begin_heap(size_t limit)
{
    unit_start();
    struct hak_heap *heap = hk_heap_open("unit", limit);
    assert_non_null(heap);
    return heap;
}

static struct hk_heap_shelf *my_shelf(void) { return &hk_tcache_self()->shelf; }

static void recall(struct hak_heap *heap)
{
    hk_lock(heap->lock);
    hk_heap_recall_locked(my_shelf(), heap);
    hk_unlock(heap->lock);
}

/* Returns this thread's cache of the heap. Returns NULL while the cache is shut. */
static struct hk_heap_cache *open_cache(struct hak_heap *heap)
{
    struct hk_heap_cache *cache = heap->index < my_shelf()->size ? my_shelf()->caches[heap->index] : &hk_no_cache;
    return hk_load(cache->xhit) == cache && cache != &hk_no_cache ? cache : NULL;
}

static unsigned take(struct hak_heap *heap, unsigned class, void **blocks, unsigned n)
{
    bool by_limit;
    hk_lock(heap->lock);
    unsigned got = hk_heap_take(heap, class, blocks + n, n, &by_limit);
    hk_unlock(heap->lock);
    return got;
}

/* Checks the mark of a block. Under the thread sanitizer there are no marks. */
static void expect_mark(const void *block, unsigned note)
{
    _Atomic uint8_t *mark;
    bool has = hk_page_map_has_mark((uintptr_t)block, &mark);
    assert_true(has || UNIT_UNDER_TSAN);
    assert_true(!has || hk_load(*mark) == note);
}

/* Slabs of several classes share a slice. No blocks overlap, and the mark of each block gives its class. */
UNIT_TEST(slices_are_shared)
{
    static const unsigned classes[] = {CLASS_OF_64, CLASS_OF_1024, CLASS_OF_512, CLASS_OF_4096};
    void *blocks[4][4];
    struct hak_heap *heap = begin_heap(0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(take(heap, classes[i], blocks[i], 4), 4);
        for (unsigned n = 0; n < 4; n++)
            pattern_fill(blocks[i][n], hk_classes[classes[i]].size, i * 4 + n);
    }
    for (unsigned i = 0; i < 4; i++)
        for (unsigned n = 0; n < 4; n++) {
            assert_true(pattern_holds(blocks[i][n], hk_classes[classes[i]].size, i * 4 + n));
            assert_int_equal((uintptr_t)blocks[i][n] / HK_SLICE, (uintptr_t)blocks[0][0] / HK_SLICE);
            expect_mark(blocks[i][n], hk_mark_of_class(classes[i]));
            assert_int_equal(hk_heap_class_at(blocks[i][n], hk_page_map_lookup((uintptr_t)blocks[i][n])), classes[i]);
        }
    assert_int_equal(heap->xcharged, HK_SLICE);
    hk_lock(heap->lock);
    for (unsigned i = 0; i < 4; i++)
        hk_heap_put(heap, blocks[i], 4);
    hk_heap_release_empty(heap);
    hk_unlock(heap->lock);
    assert_int_equal(heap->taken_blocks, 0);
    assert_int_equal(heap->xcharged, 0);
}

/* The mark of a class must not be taken for the mark of a live medium block. This also holds for the class with the number 0. */
UNIT_TEST(notes_are_no_marks)
{
    void *blocks[4];
    struct hak_heap *heap = begin_heap(0);
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        assert_int_equal(take(heap, class, blocks, 1), 1);
        _Atomic uint8_t *mark;
        assert_false(hk_mark_is_live(blocks[0], &mark) || hk_mark_end_fast(blocks[0]));
        if (class <= CLASS_OF_4096)
            expect_mark(blocks[0], hk_mark_of_class(class));
    }
}

/* A request for more blocks than a slab has gets the blocks of one slab. A new slab is made only if there is no block at all. */
UNIT_TEST(one_slab_at_a_time)
{
    void *blocks[64], *more[64];
    struct hak_heap *heap = begin_heap(0);
    assert_in_range(take(heap, CLASS_OF_512, blocks, 64), 1, 63);
    hk_lock(heap->lock);
    hk_heap_put(heap, &blocks[63], 1);
    hk_unlock(heap->lock);
    assert_int_equal(take(heap, CLASS_OF_512, more, 64), 1);
    assert_ptr_equal(more[63], blocks[63]);
}

/* A new slab needs several free pages, so it must not use a hole of one free page. */
UNIT_TEST(holes_of_a_slice)
{
    void *first[1], *hole[1], *last[1], *wide[8];
    struct hak_heap *heap = begin_heap(0);
    assert_int_equal(take(heap, CLASS_OF_64, first, 1), 1);
    assert_int_equal(take(heap, CLASS_OF_512, hole, 1), 1);
    assert_int_equal(take(heap, CLASS_OF_256, last, 1), 1);
    hk_lock(heap->lock);
    hk_heap_put(heap, hole, 1);
    hk_heap_release_empty(heap);
    hk_unlock(heap->lock);
    expect_mark(hole[0], 0);
    assert_int_equal(take(heap, CLASS_OF_1024, wide, 8), 8);
    expect_mark(last[0], hk_mark_of_class(CLASS_OF_256));
    expect_mark(wide[7], hk_mark_of_class(CLASS_OF_1024));
    assert_int_equal(take(heap, CLASS_OF_128, hole, 1), 1);
    assert_int_equal((uintptr_t)hole[0] / HK_PAGE, (uintptr_t)first[0] / HK_PAGE + 1);
}

/* After the end of a heap, its memory has no marks and no page map entry of the heap because other blocks may lie there next. */
UNIT_TEST(an_end_leaves_no_mark)
{
    void *small[4], *large[1];
    struct hak_heap *heap = begin_heap(0);
    assert_int_equal(take(heap, CLASS_OF_256, small, 4), 4);
    assert_int_equal(take(heap, CLASS_OF_65536, large, 1), 1);
    hk_mark_begin(large[0]);
    expect_mark(small[0], hk_mark_of_class(CLASS_OF_256));
    assert_true(hk_heaps_destroy(heap));
    expect_mark(small[0], 0);
    expect_mark(large[0], 0);
    assert_int_equal(hk_page_map_lookup((uintptr_t)small[0]), HK_ENTRY_ENDED);
    assert_int_equal(hk_page_map_lookup((uintptr_t)large[0]), HK_ENTRY_ENDED);
    assert_int_equal(heap->xcharged, 0);
}

UNIT_TEST(a_limit_is_exact)
{
    struct hak_heap *heap = begin_heap(3 * HK_SLICE);
    assert_true(hk_heap_charge(heap, HK_SLICE) && hk_heap_charge(heap, 2 * HK_SLICE));
    assert_false(hk_heap_charge(heap, 1));
    hk_heap_uncharge(heap, HK_SLICE);
    assert_false(hk_heap_charge(heap, HK_SLICE + 1) || hk_heap_charge(heap, SIZE_MAX));
    assert_true(hk_heap_charge(heap, HK_SLICE));
    assert_int_equal(heap->xpeak, 3 * HK_SLICE);
}

/* A refill that gets fewer blocks than it wants puts them at the bottom of the bin. */
UNIT_TEST(a_short_refill)
{
    bool by_limit;
    void *block, *blocks[64];
    struct hak_heap *heap = begin_heap(HK_SLICE);
    unsigned n = 0;
    while (n < 64 && (block = hk_heap_refill(my_shelf(), heap, CLASS_OF_1536, &by_limit)) != NULL)
        for (; block != NULL; block = hk_heap_pop(open_cache(heap), CLASS_OF_1536 * HK_CLASS_BYTES), n++)
            pattern_fill(blocks[n] = block, 1536, n);
    assert_true(n == 40 && by_limit); /* Each slab has 10 blocks, and each refill takes 4. */
    for (unsigned i = 0; i < n; i++)
        assert_true(pattern_holds(blocks[i], 1536, i));
}

/* After a reset, the blocks in a heap's caches no longer exist. A cache neither serves them nor returns them to slabs. */
UNIT_TEST(a_reset_voids_caches)
{
    bool by_limit;
    struct hak_heap *heap = begin_heap(0);
    void *block = hk_heap_refill(my_shelf(), heap, CLASS_OF_64, &by_limit);
    struct hk_heap_cache *cache = open_cache(heap);
    assert_true(block != NULL && cache != NULL && hk_heap_push(cache, CLASS_OF_64 * HK_CLASS_BYTES, block));
    assert_true(hk_heap_cached(heap).blocks > 0 && hk_heap_cached(heap).caches == 1);
    assert_true(hk_heaps_reset(heap));
    assert_null(open_cache(heap));
    assert_int_equal(hk_heap_cached(heap).caches, 0);
    void *taken[8];
    assert_int_equal(take(heap, CLASS_OF_64, taken, 8), 8);
    hk_heap_shelf_end(my_shelf()); /* The end of the shelf returns no block to the slabs. */
    assert_int_equal(heap->taken_blocks, 8);
    block = hk_heap_refill(my_shelf(), heap, CLASS_OF_64, &by_limit);
    assert_int_equal(hk_page_map_lookup((uintptr_t)block), heap->key | HK_CLASS_SHARED * HK_CLASS_BYTES);
    expect_mark(block, hk_mark_of_class(CLASS_OF_64));
    assert_int_equal(heap->taken_blocks, 8 + 1 + hk_heap_cached(heap).blocks);
    /* Tests the same cache in the next generation. */
    assert_true(hk_heaps_reset(heap));
    assert_int_equal(take(heap, CLASS_OF_1024, taken, 1), 1);
    block = hk_heap_refill(my_shelf(), heap, CLASS_OF_64, &by_limit);
    expect_mark(block, hk_mark_of_class(CLASS_OF_64));
    assert_int_equal(heap->taken_blocks, 1 + 1 + hk_heap_cached(heap).blocks);
}

/* The program frees a block of a released slab. The mark of the block's page is 0 then, and must not lead to the bin of class 0. */
UNIT_TEST(no_bin_of_an_empty_page)
{
    bool by_limit;
    void *blocks[2];
    struct hak_heap *heap = begin_heap(0);
    assert_int_equal(take(heap, CLASS_OF_64, &blocks[0], 1), 1);
    assert_int_equal(take(heap, CLASS_OF_512, &blocks[1], 1), 1);
    assert_non_null(hk_heap_refill(my_shelf(), heap, CLASS_OF_64, &by_limit));
    assert_non_null(hk_heap_refill(my_shelf(), heap, 0, &by_limit)); /* Class 0 has a bin with room now. */
    hk_lock(heap->lock);
    hk_heap_put(heap, &blocks[1], 1);
    hk_heap_release_empty(heap);
    hk_unlock(heap->lock);
    uint32_t entry = hk_page_map_lookup((uintptr_t)blocks[1]);
    assert_true(hk_entry_is_heap(entry));
    expect_mark(blocks[1], 0);
    assert_false(hk_heaps_hit_free(my_shelf(), blocks[1], entry));
    assert_true(hk_heaps_hit_free(my_shelf(), blocks[0], entry));
    unit_dies(hak_free, blocks[1], "block already free");
}

/* A shelf that grows keeps its caches. It finds no cache for page map entries of threads, of ended heaps, and of heaps with numbers beyond its
 * size. */
UNIT_TEST(a_shelf_grows)
{
    bool by_limit;
    struct hk_heap_cache *caches[40];
    struct hak_heap *heaps[40];
    heaps[0] = begin_heap(0);
    for (unsigned i = 0; i < 40; i++) {
        heaps[i] = i > 0 ? hk_heap_open(NULL, 0) : heaps[0];
        uint32_t entry = heaps[i]->key | CLASS_OF_64 * HK_CLASS_BYTES;
        assert_false(i >= my_shelf()->size && hk_heaps_hit_free(my_shelf(), &entry, entry));
        assert_non_null(hk_heap_refill(my_shelf(), heaps[i], CLASS_OF_64, &by_limit));
        caches[i] = open_cache(heaps[i]);
    }
    for (unsigned i = 0; i < 40; i++)
        assert_ptr_equal(open_cache(heaps[i]), caches[i]);
    assert_int_equal(my_shelf()->reach, my_shelf()->size << HK_ENTRY_OWNER_SHIFT);
    assert_false(hk_heaps_hit_free(my_shelf(), caches, hk_entry(5, CLASS_OF_64)));
    assert_false(hk_heaps_hit_free(my_shelf(), caches, HK_ENTRY_ENDED));
    hk_heap_shelf_end(my_shelf());
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(hk_heap_cached(heaps[i]).caches, 0);
        assert_int_equal(heaps[i]->taken_blocks, 1);
    }
}

/* Both threads wait at this barrier, so that another thread sleeps with free blocks in its cache. */
static pthread_barrier_t sleeps;
static struct hk_heap_shelf *its_shelf;

static void *sleep_with_blocks(void *heap)
{
    void *blocks[3];
    for (unsigned i = 0; i < 3; i++)
        blocks[i] = hak_heap_malloc(heap, 64);
    for (unsigned i = 0; i < 3; i++)
        hak_free(blocks[i]);
    its_shelf = my_shelf();
    pthread_barrier_wait(&sleeps);
    pthread_barrier_wait(&sleeps);
    void *block = hak_heap_malloc(heap, 64);
    assert_true(hak_heap_of(block) == heap);
    hak_free(block);
    return NULL;
}

static pthread_t begin_sleeper(struct hak_heap *heap)
{
    pthread_t thread;
    pthread_barrier_init(&sleeps, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, sleep_with_blocks, heap), 0);
    pthread_barrier_wait(&sleeps);
    return thread;
}

static void end_sleeper(pthread_t thread)
{
    pthread_barrier_wait(&sleeps);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&sleeps);
}

/* The last free memory of the heap is in the cache of a sleeping thread. A recall returns it to the heap. */
UNIT_TEST(a_recall_reaches_others)
{
    struct hak_heap *heap = begin_heap(HK_SLICE);
    pthread_t thread = begin_sleeper(heap);
    assert_true(hk_heap_cached(heap).blocks > 0);
    assert_non_null(hak_heap_malloc(heap, HK_SLICE));
    assert_int_equal(hk_heap_cached(heap).blocks, 0);
    assert_null(hak_heap_malloc(heap, 64));
    assert_int_equal(hak_heap_set_limit(heap, 0), 0);
    end_sleeper(thread);
    assert_int_equal(hk_heap_cached(heap).caches, 1); /* Only the main thread's cache remains. */
}

/* A thread may be in the middle of a hit, for example if a signal stopped it. A recall leaves the blocks in this thread's cache alone, and a
 * later recall takes them. */
UNIT_TEST(a_recall_leaves_hits_alone)
{
    struct hak_heap *heap = begin_heap(0);
    pthread_t thread = begin_sleeper(heap);
    size_t blocks = hk_heap_cached(heap).blocks;
    hk_store(its_shelf->xbusy, 1);
    recall(heap);
    assert_int_equal(hk_heap_cached(heap).blocks, blocks);
    hk_store(its_shelf->xbusy, 0);
    recall(heap);
    assert_int_equal(hk_heap_cached(heap).blocks, 0);
    end_sleeper(thread);
}

/* If the system cannot fence threads, blocks cannot be recalled from the caches of other threads. A limited heap then has no caches. */
UNIT_TEST(no_fences)
{
    struct hak_heap *heap = begin_heap(0);
    fake_os_refuse(fake_refuse_fence);
    struct hak_heap *limited = hk_heap_open("limited", HK_SLICE);
    void *block = hak_heap_malloc(limited, 64);
    assert_non_null(block);
    hak_heap_free(limited, block);
    assert_int_equal(hk_heap_cached(limited).caches, 0);
    assert_non_null(hak_heap_malloc(limited, HK_SLICE));
    pthread_t thread = begin_sleeper(heap);
    size_t blocks = hk_heap_cached(heap).blocks;
    block = hak_heap_malloc(heap, 64);
    hak_free(block);
    recall(heap);
    assert_int_equal(hk_heap_cached(heap).blocks, blocks);
    end_sleeper(thread);
    fake_os_refuse(NULL);
}

/* A limited heap can serve every size that fits into its limit. Its slabs are shorter if a usual slab would exceed the limit. */
UNIT_TEST(slabs_within_a_limit)
{
    struct hak_heap *heap = begin_heap(2 * HK_SLICE);
    for (size_t size = 16; size <= 2 * HK_SLICE; size += size / 3 + 1) {
        void *block = hak_heap_malloc(heap, size);
        assert_non_null(block);
        hak_free(block);
    }
    assert_null(hak_heap_malloc(heap, 2 * HK_SLICE + 1));
}

/* Slabs that became empty, and the slice that small slabs shared, must be reusable before the limit refuses a block. */
UNIT_TEST(empty_slabs_make_room)
{
    void *blocks[3][64];
    struct hak_heap *heap = begin_heap(8 * HK_SLICE);
    for (unsigned i = 0; i < 3 * 64; i++)
        assert_int_equal(take(heap, CLASS_OF_1024 + i % 3, &blocks[i % 3][i / 3], 1), 1);
    hk_lock(heap->lock);
    for (unsigned i = 0; i < 3; i++) {
        /* One slab now has only free blocks. Then one block of another slab is freed. */
        hk_heap_put(heap, blocks[i] + 1, 63);
        hk_heap_put(heap, blocks[i], 1);
    }
    hk_heap_release_empty(heap);
    hk_unlock(heap->lock);
    assert_int_equal(heap->taken_blocks, 0);
    assert_int_equal(heap->xcharged, 0);
}

/* Caches that a thread has not used for some time return their blocks to the slabs. Caches in use keep their blocks. */
UNIT_TEST(idle_caches_age)
{
    bool by_limit;
    struct hak_heap *heap = begin_heap(0);
    assert_non_null(hk_heap_refill(my_shelf(), heap, CLASS_OF_64, &by_limit));
    assert_true(hk_heap_cached(heap).blocks > 0);
    hk_heap_shelf_age(my_shelf());
    assert_true(hk_heap_cached(heap).blocks > 0);
    hk_heap_shelf_age(my_shelf());
    assert_int_equal(hk_heap_cached(heap).blocks, 0);
    assert_int_equal(heap->taken_blocks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_shared),
        cmocka_unit_test(one_slab_at_a_time),
        cmocka_unit_test(holes_of_a_slice),
        cmocka_unit_test(an_end_leaves_no_mark),
        cmocka_unit_test(a_limit_is_exact),
        cmocka_unit_test(a_short_refill),
        cmocka_unit_test(a_reset_voids_caches),
        cmocka_unit_test(no_bin_of_an_empty_page),
        cmocka_unit_test(a_shelf_grows),
        cmocka_unit_test(idle_caches_age),
        cmocka_unit_test(notes_are_no_marks),
        cmocka_unit_test(a_recall_reaches_others),
        cmocka_unit_test(a_recall_leaves_hits_alone),
        cmocka_unit_test(no_fences),
        cmocka_unit_test(slabs_within_a_limit),
        cmocka_unit_test(empty_slabs_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
