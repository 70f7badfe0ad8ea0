/* Tests joined blocks, which take several adjacent blocks of a slab. While a joined block is live, none of its blocks is allocated or freed alone.
 * When it is freed, all of them are free again. */
#include "unit/unit.h"

#include <string.h>

#include "tcache/tcache.h"
#include "prof/hooks.h"
#include "hakmem.h"
#include "slab/joined_blocks.h"
#include "slab/abandoned.h"
#include "slab/remote.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "slab/slab_heap.h"

enum { OWNER = 7, BLOCKS = 1024 };

static void *blocks[BLOCKS];

/* Returns a slab of 64-byte blocks that are all taken. blocks[i] is block number i. */
static struct hk_slab *make_full(uint32_t owner)
{
    struct hk_slab *slab = unit_slab(CLASS_OF_64, owner);
    assert_non_null(slab);
    hk_slab_alloc(slab, blocks + BLOCKS, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = (void *)(slab->d.start + i * (size_t)64);
    return slab;
}

static void give(struct hk_slab *slab, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        hk_slab_free(slab, blocks[i]);
}

static bool is_mixed(const struct hk_slab *slab) { return hk_entry_is_mixed(hk_page_map_lookup(slab->d.start)); }

UNIT_TEST(whole_runs)
{
    void *joined_block[8];
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 10, 12);
    give(slab, 20, 26);
    give(slab, 63, 66); /* Blocks 63 to 65 lie in two words of the bitmap. */
    assert_int_equal(hk_joined_take(slab, 3, joined_block + 8, 8), 3);
    assert_ptr_equal(joined_block[7], blocks[20]);
    assert_ptr_equal(joined_block[6], blocks[23]);
    assert_ptr_equal(joined_block[5], blocks[63]);
    assert_int_equal(slab->free, 2);
    assert_int_equal(slab->joined, 6);
    assert_true(is_mixed(slab));
    for (int i = 5; i < 8; i++) {
        assert_int_equal(hk_joined_bytes(joined_block[i]), 192);
        assert_int_equal(hk_class_that_fits(hk_joined_bytes(joined_block[i])), CLASS_OF_192);
    }
    assert_int_equal(hk_joined_bytes(blocks[9]), 64);
    assert_int_equal(hk_joined_take(slab, 3, joined_block + 1, 1), 0);
    /* The joined blocks are freed in another order, with a block of the slab's own class between them. */
    void *mixed[] = {joined_block[6], blocks[9], joined_block[5], joined_block[7]};
    for (int i = 0; i < 4; i++)
        hk_slab_free(slab, mixed[i]);
    assert_int_equal(slab->free, 12);
    assert_int_equal(slab->joined, 0);
    assert_false(is_mixed(slab));
    assert_int_equal(slab->first_word, 0);
}

/* If a slab has no run of free blocks that is long enough, the attempt to take a joined block changes nothing. */
UNIT_TEST(no_room)
{
    void *joined_block;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        give(slab, i, i + 1);
    assert_int_equal(hk_joined_take(slab, 2, &joined_block + 1, 1), 0);
    assert_int_equal(slab->free, BLOCKS / 2);
    assert_false(is_mixed(slab));
    give(slab, BLOCKS - 1, BLOCKS);
    assert_int_equal(hk_joined_take(slab, 3, &joined_block + 1, 1), 0);
    assert_int_equal(hk_joined_take(slab, 2, &joined_block + 1, 1), 1);
    assert_ptr_equal(joined_block, blocks[BLOCKS - 2]);
}

/* Tests a remote free of joined blocks. */
UNIT_TEST(from_afar)
{
    void *joined_block[2];
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 62, 70);
    assert_int_equal(hk_joined_take(slab, 4, joined_block + 2, 2), 2);
    for (int i = 0; i < 2; i++) {
        size_t index = hk_slab_index(slab, (uintptr_t)joined_block[i]);
        hk_remote_mark(slab, (unsigned)(index / 64), (uint64_t)1 << (index % 64));
    }
    assert_true(hk_remote_count(slab, 2));
    assert_int_equal(hk_remote_collect(slab), 2);
    assert_int_equal(slab->free, 8);
    assert_int_equal(hk_load(slab->xstate), 0);
    assert_false(is_mixed(slab));
}

/* Simulates a fork child that finds a slab whose owner was changing the slab during the fork. */
UNIT_TEST(merged)
{
    void *joined_block[2];
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 100, 108);
    assert_int_equal(hk_joined_take(slab, 4, joined_block + 2, 2), 2);
    hk_remote_mark(slab, 100 / 64, (uint64_t)1 << (100 % 64));
    slab->free = 77;
    slab->joined = 0;
    assert_true(hk_remote_merge(slab));
    hk_slab_recount(slab);
    assert_int_equal(slab->free, 4);
    assert_int_equal(slab->joined, 3);
    assert_true(slab->mixed);
    assert_int_equal(hk_joined_cells(slab, 104), 4);
}

static void give_again(void *block) { hk_slab_free(hk_slab_at((uintptr_t)block), block); }
static void mark_inside(void *block)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    size_t index = hk_slab_index(slab, (uintptr_t)block);
    hk_remote_mark(slab, (unsigned)(index / 64), (uint64_t)1 << (index % 64));
    hk_remote_count(slab, 1);
    hk_remote_collect(slab);
}

UNIT_TEST(wrong_pointers)
{
    void *joined_block;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 200, 203);
    assert_int_equal(hk_joined_take(slab, 3, &joined_block + 1, 1), 1);
    unit_dies(give_again, blocks[201], "pointer inside a block");
    unit_dies(mark_inside, blocks[202], "pointer inside a block");
    unit_dies(give_again, (char *)joined_block + 8, "pointer inside a block");
    hk_slab_free(slab, joined_block);
    unit_dies(give_again, joined_block, "block already free");
}

/* After the slab's thread has ended, its page map entry still says that the slab holds joined blocks. A free of the joined block takes the lock of
 * the abandoned slabs. */
UNIT_TEST(abandoned)
{
    void *joined_block;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 0, 5);
    assert_int_equal(hk_joined_take(slab, 5, &joined_block + 1, 1), 1);
    hk_abandoned_add(slab);
    assert_int_equal(hk_page_map_lookup(slab->d.start), hk_entry(HK_ABANDONED, CLASS_OF_64) | HK_ENTRY_MIXED);
    hk_tcache_free(hk_tcache_self(), joined_block, hk_page_map_lookup((uintptr_t)joined_block));
    assert_int_equal(slab->free, 5);
    assert_int_equal(hk_page_map_lookup(slab->d.start), hk_entry(HK_ABANDONED, CLASS_OF_64));
    for (unsigned i = 5; i < BLOCKS; i++)
        hk_tcache_free(hk_tcache_self(), blocks[i], hk_page_map_lookup((uintptr_t)blocks[i]));
    unit_heap_holds(0);
}

/* Returns a joined block of three blocks in a slab of this thread, as the tcache would allocate it. The 64-byte blocks count as live blocks of the
 * program. */
static unsigned char *held_here(void)
{
    void *joined_block;
    unit_start();
    struct hk_slab *slab = make_full(hk_tcache_self()->owner.id);
    give(slab, 200, 203);
    assert_int_equal(hk_joined_take(slab, 3, &joined_block + 1, 1), 1);
    assert_ptr_equal(joined_block, blocks[200]);
    hk_slab_heap_enter(&hk_tcache_self()->owner, slab);
    return joined_block;
}

static void assert_gone(void)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)blocks[0]);
    hak_malloc_trim(0);
    assert_int_equal(slab->free, 3);
    assert_int_equal(slab->joined, 0);
    assert_false(is_mixed(slab));
    unit_heap_holds(BLOCKS - 3);
}

UNIT_TEST(size_and_resize)
{
    unsigned char *joined_block = held_here();
    assert_int_equal(hak_malloc_usable_size(joined_block), 192);
    assert_int_equal(hak_malloc_usable_size(blocks[199]), 64);
    assert_int_equal(hak_malloc_usable_size(blocks[203]), 64);
    pattern_fill(joined_block, 192, 5);
    assert_ptr_equal(hak_realloc(joined_block, 150), joined_block);
    assert_ptr_equal(hak_realloc(joined_block, 192), joined_block);
    unsigned char *larger = hak_realloc(joined_block, 193);
    assert_ptr_not_equal(larger, joined_block);
    assert_true(pattern_holds(larger, 192, 5));
    unsigned char *again = hak_malloc(180); /* The bin serves this block. */
    assert_ptr_equal(again, joined_block);
    assert_int_equal(hak_malloc_usable_size(again), 192);
    pattern_fill(again, 180, 6);
    unsigned char *smaller = hak_realloc(again, 20);
    assert_ptr_not_equal(smaller, again);
    assert_true(pattern_holds(smaller, 20, 6));
    hak_free(smaller);
    hak_free(larger);
    assert_gone();
}

/* A joined block moves to a slab of the class that fits it, if that slab is fuller. Then it no longer keeps the slab of small blocks. */
UNIT_TEST(moved)
{
    unsigned char *joined_block = held_here();
    void *of_class[341];
    for (unsigned i = 0; i < 341; i++)
        of_class[i] = hak_malloc(192);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i < 200 || i >= 203)
            hak_free(blocks[i]);
    hak_free(of_class[10]);
    hak_malloc_trim(0);
    assert_int_equal(hak_should_move(joined_block), 1);
    void *to = hak_malloc(192);
    assert_ptr_equal(to, of_class[10]);
    hak_free(joined_block);
    hak_malloc_trim(0);
    assert_int_equal(hk_page_map_lookup((uintptr_t)joined_block), 0);
    unit_heap_holds(341);
}

static void free_it(void *block) { hak_free(block); }
static void free_with_its_size(void *block) { hak_free_sized(block, 190); }
static void delete_with_its_size(void *block) { hak_free_aligned_sized(block, 16, 190); }

UNIT_TEST(freed_with_its_size)
{
    free_with_its_size(held_here());
    assert_gone();
}

/* Checks that the heap stats count a remote free of a joined block with the bytes of the joined block. */
static void assert_one_remote(void)
{
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.classes[CLASS_OF_192].remote, 192);
    assert_int_equal(heap_stats.classes[CLASS_OF_192].live_blocks, 0);
    assert_int_equal(heap_stats.classes[CLASS_OF_64].remote, 0);
    assert_int_equal(heap_stats.classes[CLASS_OF_64].live_blocks, BLOCKS - 3);
}

static void delete_and_count(void *block)
{
    delete_with_its_size(block);
    assert_one_remote(); /* the block is in this thread's outbox */
}

UNIT_TEST(freed_by_a_thread)
{
    unit_in_thread(delete_and_count, held_here());
    assert_one_remote(); /* the block is in the owner's inbox */
    assert_gone();
}

UNIT_TEST(in_the_heap_stats)
{
    static struct hk_heap_stats heap_stats;
    unsigned char *joined_block = held_here();
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.classes[CLASS_OF_192].live_blocks, 1);
    assert_int_equal(heap_stats.classes[CLASS_OF_64].live_blocks, BLOCKS - 3);
    hak_free(joined_block);
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.classes[CLASS_OF_192].live_blocks, 0);
    assert_int_equal(heap_stats.classes[CLASS_OF_192].in_bins, 192);
    assert_int_equal(heap_stats.classes[CLASS_OF_64].live_blocks, BLOCKS - 3);
    assert_gone();
}

static void add_up(void *sum, const struct hk_site *site, unsigned number)
{
    (void)number;
    *(int64_t *)sum += hk_load(site->xlive_bytes);
}

static int64_t sampled(void)
{
    int64_t sum = 0;
    hk_sites_visit(&hk_samples, add_up, &sum);
    return sum;
}

/* The hooks see each call, and each block is sampled. */
UNIT_TEST(watched)
{
    hk_options.heap_sample = 1;
    hk_options.trace_ring = 16;
    unsigned char *joined_block = held_here();
    assert_true(hk_mode_has(HK_MODE_HOOKS));
    hak_free(joined_block);
    assert_ptr_equal(hak_malloc(180), joined_block);
    assert_int_equal(sampled(), 180);
    assert_ptr_equal(hak_realloc(joined_block, 170), joined_block);
    assert_int_equal(sampled(), 170);
    unit_in_thread(free_it, joined_block);
    assert_int_equal(sampled(), 0);
    assert_gone();
}

static void twice(void *block)
{
    hak_free(block);
    hak_free(block);
    hak_malloc_trim(0);
}
static void twice_elsewhere(void *block)
{
    unit_in_thread(twice, block);
    hak_malloc_trim(0);
}
static void once_here(void *block)
{
    hak_free(block);
    hak_malloc_trim(0);
}
static void once_elsewhere(void *block)
{
    unit_in_thread(free_it, block);
    hak_malloc_trim(0);
}

/* Tests mistakes of the program: a second free, a free of an address at which a part of the joined block begins, and a free of any other address
 * inside it. */
UNIT_TEST(mistakes)
{
    unsigned char *joined_block = held_here();
    unit_dies(twice, joined_block, "block already free");
    unit_dies(twice_elsewhere, joined_block, "block already free");
    for (unsigned at = 64; at < 192; at += 64) {
        unit_dies(once_here, joined_block + at, "pointer inside a block");
        unit_dies(once_elsewhere, joined_block + at, "pointer inside a block");
    }
    unit_dies(once_here, joined_block + 16, "pointer inside a block");
    hak_free(joined_block);
    assert_gone();
}

static void leave_behind(void *given)
{
    *(unsigned char **)given = held_here();
    for (unsigned i = 0; i < 200; i++)
        hak_free(blocks[i]);
}

/* The slab belongs to a thread that has ended. The joined block is resized, freed, and freed a second time. */
UNIT_TEST(of_an_ended_thread)
{
    unsigned char *joined_block;
    unit_start();
    unit_in_thread(leave_behind, &joined_block);
    struct hk_slab *slab = hk_slab_at((uintptr_t)joined_block);
    assert_int_equal(hk_page_map_lookup(slab->d.start), hk_entry(HK_ABANDONED, CLASS_OF_64) | HK_ENTRY_MIXED);
    assert_int_equal(hak_malloc_usable_size(joined_block), 192);
    pattern_fill(joined_block, 192, 7);
    unit_dies(twice, joined_block, "block already free");
    unit_dies(once_here, joined_block + 64, "pointer inside a block");
    unsigned char *moved = hak_realloc(joined_block, 500);
    assert_true(pattern_holds(moved, 192, 7));
    hak_malloc_trim(0);
    assert_int_equal(slab->free, 203);
    assert_int_equal(hk_page_map_lookup(slab->d.start), hk_entry(HK_ABANDONED, CLASS_OF_64));
    hak_free(moved);
    for (unsigned i = 203; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

/* A thread that needs 64-byte blocks adopts the slab together with the joined block in it. */
UNIT_TEST(adopted)
{
    unsigned char *joined_block;
    unit_start();
    unit_in_thread(leave_behind, &joined_block);
    struct hk_slab *slab = hk_slab_at((uintptr_t)joined_block);
    pattern_fill(joined_block, 192, 8);
    void *small = hak_malloc(64);
    assert_ptr_equal(hk_slab_at((uintptr_t)small), slab);
    assert_int_equal(hk_page_map_lookup(slab->d.start),
                     hk_entry(hk_tcache_self()->owner.id, CLASS_OF_64) | HK_ENTRY_MIXED);
    memset(small, 0, 64);
    assert_true(pattern_holds(joined_block, 192, 8));
    unit_in_thread(free_it, joined_block);
    hak_malloc_trim(0);
    assert_false(is_mixed(slab));
    hak_free(small);
    unit_heap_holds(BLOCKS - 203);
}

static unsigned overlaps(const unsigned char *taken, unsigned from, unsigned cells)
{
    unsigned sum = 0;
    for (unsigned at = from; at < from + cells; at++)
        sum += taken[at];
    return sum;
}

/* Makes random steps, and checks them against a table of the blocks. */
UNIT_TEST(at_random)
{
    static unsigned char taken[BLOCKS];
    static uint16_t length[BLOCKS]; /* is set where a block begins */
    static struct hk_heap_stats heap_stats;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    struct rng rng = rng_seeded(12);
    memset(taken, 1, sizeof taken);
    for (unsigned i = 0; i < BLOCKS; i++)
        length[i] = 1;
    for (unsigned step = 0; step < 200000; step++) {
        unsigned at = (unsigned)rng_below(&rng, BLOCKS);
        if (length[at] != 0) {
            hk_slab_free(slab, (void *)(slab->d.start + at * (size_t)64));
            memset(taken + at, 0, length[at]);
            length[at] = 0;
        } else if (slab->free > 0) {
            void *block;
            unsigned cells = 1 + (unsigned)rng_below(&rng, step % 8 == 0 ? HK_JOINED_MOST_CELLS : 16);
            if (cells == 1)
                hk_slab_alloc(slab, &block + 1, 1);
            else if (hk_joined_take(slab, cells, &block + 1, 1) == 0)
                continue;
            unsigned index = (unsigned)hk_slab_index(slab, (uintptr_t)block);
            assert_int_equal(overlaps(taken, index, cells), 0);
            assert_int_equal(hk_joined_cells(slab, index), cells);
            memset(taken + index, 1, cells);
            length[index] = (uint16_t)cells;
        }
        if (step % 1000 == 0)
            assert_null(heap_is_wrong(&heap_stats));
    }
}

static void steal_what_waits(void *unused)
{
    (void)unused;
    hak_free(hak_malloc(60));
    struct hk_tcache *cache = hk_tcache_self();
    hk_bins_empty(cache, true);
    hk_tcache_steal_all(cache);
    assert_int_equal(hk_bin_items(&cache->hot.bins[CLASS_OF_64]), 0);
}

/* A thread that needs blocks does not steal the remote frees of a slab with joined blocks, because a joined block is larger than the slab's class. */
UNIT_TEST(not_stolen)
{
    unit_in_thread(free_it, held_here());
    unit_in_thread(steal_what_waits, NULL);
    assert_gone();
}

enum { LIVE = 100000 };
struct record {
    unsigned char *p;
    size_t size;
};

static void drop(struct record *record)
{
    assert_true(record->p == NULL || pattern_holds(record->p, record->size, record->size));
    hak_free(record->p);
    record->p = NULL;
}

static void replace(struct record *record, size_t size)
{
    drop(record);
    *record = (struct record){hak_malloc(size), size};
    assert_non_null(record->p);
    pattern_fill(record->p, size, size);
}

/* Sweeps all slabs, so that their free blocks are counted. */
static void sweep_all(void)
{
    struct hk_sweep sweep = {.now = hk_os.clock_ms(), .touched = hk_os.clock_ms(), .work = INT64_MAX};
    hk_slab_heap_sweep_begin(&hk_tcache_self()->owner, HK_SWEEP_AGED);
    hk_slab_heap_sweep(&hk_tcache_self()->owner, &sweep);
}

static size_t slab_bytes(void)
{
    size_t bytes = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        bytes += hk_tcache_self()->owner.slab_lists[class].slabs * (size_t)hk_classes[class].slab_bytes;
    return bytes;
}

static size_t slabs_of_smallest(void) { return hk_tcache_self()->owner.slab_lists[0].slabs; }

static struct record records[LIVE];

/* Keeps LIVE records, whose sizes grow by a twentieth in each step. A step replaces a quarter of the records. */
static void drift(unsigned steps)
{
    struct rng rng = rng_seeded(3);
    size_t size = 64;
    unit_start();
    for (unsigned step = 0; step < steps; step++, size = size * 21 / 20) {
        for (unsigned i = 0; i < LIVE / 4; i++) {
            size_t larger =
                size +
                rng_below(&rng,
                          32); /* before the other call, because compilers order the arguments of a call differently */
            replace(&records[rng_below(&rng, LIVE)], larger);
        }
        sweep_all();
    }
}

/* If block sizes drift, new blocks are joined in slabs of 16-byte blocks. At the end, the slabs have less than 1.7 times the
 * live bytes. Without slabs of 16-byte blocks, they have 1.9 times the live bytes. */
UNIT_TEST(sizes_that_drift)
{
    size_t live = 0;
    drift(70);
    for (unsigned i = 0; i < LIVE; i++)
        live += records[i].size;
    assert_true(slabs_of_smallest() > 0);
    assert_true(slab_bytes() < live * 17 / 10);
    for (unsigned i = 0; i < LIVE; i++)
        drop(&records[i]);
    hak_malloc_trim(0);
    unit_heap_holds(0);
    assert_int_equal(slab_bytes(), 0);
}

/* After a drift has ended, the heap grows by blocks of one size. In the end these lie in slabs of their own class. */
UNIT_TEST(drift_that_ends)
{
    enum { PARTS = 9, OF_PART = LIVE / 4 };
    static struct record more[PARTS * OF_PART];
    size_t before = 0;
    drift(50);
    assert_true(slabs_of_smallest() > 0);
    for (unsigned part = 0; part < PARTS; part++) {
        before = slabs_of_smallest();
        for (unsigned i = 0; i < OF_PART; i++)
            replace(&more[part * OF_PART + i], 1400);
        sweep_all();
    }
    assert_int_equal(slabs_of_smallest(), before);
}

/* A program that changes its block size only once must not get slabs of 16-byte blocks, because frees in them are slower. */
UNIT_TEST(one_new_phase)
{
    enum { OF_PHASE = 3 * LIVE };
    static struct record first[OF_PHASE], second[OF_PHASE];
    unit_start();
    for (unsigned i = 0; i < OF_PHASE; i++)
        replace(&first[i], 128);
    for (unsigned i = 0; i < OF_PHASE; i += 2)
        drop(&first[i]);
    for (unsigned i = 0; i < OF_PHASE; i++) {
        replace(&second[i], 200);
        if (i % 1000 == 0)
            sweep_all();
    }
    assert_int_equal(slabs_of_smallest(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_runs),        cmocka_unit_test(no_room),
        cmocka_unit_test(from_afar),         cmocka_unit_test(merged),
        cmocka_unit_test(wrong_pointers),    cmocka_unit_test(abandoned),
        cmocka_unit_test(size_and_resize),   cmocka_unit_test(freed_with_its_size),
        cmocka_unit_test(freed_by_a_thread), cmocka_unit_test(not_stolen),
        cmocka_unit_test(in_the_heap_stats), cmocka_unit_test(watched),
        cmocka_unit_test(mistakes),          cmocka_unit_test(of_an_ended_thread),
        cmocka_unit_test(adopted),           cmocka_unit_test(at_random),
        cmocka_unit_test(sizes_that_drift),  cmocka_unit_test(drift_that_ends),
        cmocka_unit_test(one_new_phase),     cmocka_unit_test(moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
