/* Tests the page heap: the tightest fit, the preference of dirty slices, extension, growth, purges by age, and the count of dirty slices. */
#include "unit/unit.h"

#include <string.h>

#include "count/stats.h"
#include "policy/options.h"
#include "span/chunks.h"
#include "span/footprint.h"
#include "span/page_map.h"
#include "span/page_heap.h"
#include "support/knobs.h"
#include "support/rng.h"

static uintptr_t get(size_t slices)
{
    uintptr_t at = hk_span_alloc(slices, HK_USE_SPARSE, &(bool){false});
    assert_true(at != 0);
    assert_int_equal(at % HK_SLICE, 0);
    memset((void *)at, 1, 1);
    return at;
}

static void start(void)
{
    assert_true(hk_page_map_init());
    hk_thp_look();
    hk_page_heap_init();
    fake_os_refuse(NULL);
}

UNIT_TEST(grows_and_fits)
{
    start();
    uintptr_t whole = get(HK_CHUNK_SLICES);
    assert_int_equal(whole % HK_CHUNK, 0);
    assert_true(hk_page_heap_total().mapped >= HK_CHUNK);
    uintptr_t five = get(5);
    uintptr_t three = get(3);
    uintptr_t fence = get(1);
    hk_span_free(five, 5);
    /* The hole of five slices serves four, then one. The freed span of three slices serves three again. */
    uintptr_t four = get(4);
    assert_int_equal(four, five);
    assert_int_equal(get(1), five + 4 * HK_SLICE);
    hk_span_free(three, 3);
    assert_int_equal(get(3), three);
    assert_true(fence > three);
    hk_span_free(whole, HK_CHUNK_SLICES);
    struct hk_page_heap_totals before = hk_page_heap_total();
    assert_int_equal(get(HK_CHUNK_SLICES), whole);
    assert_int_equal(hk_page_heap_total().mapped, before.mapped);
    assert_int_equal(hk_page_heap_total().free_dirty, before.free_dirty - HK_CHUNK);
}

/* Dirty slices that had another use (HK_USE_DENSE or HK_USE_SPARSE) are preferred to clean slices. */
UNIT_TEST(dirty_slices_of_the_other_use)
{
    start();
    uintptr_t dense = hk_span_alloc(4, HK_USE_DENSE, &(bool){false}),
              fence = hk_span_alloc(1, HK_USE_DENSE, &(bool){false}),
              sparse = hk_span_alloc(1, HK_USE_SPARSE, &(bool){false});
    assert_true(fence != 0 && sparse / HK_CHUNK != dense / HK_CHUNK);
    hk_span_free(dense, 4);
    assert_int_equal(hk_span_alloc(3, HK_USE_SPARSE, &(bool){false}), dense);
    hk_span_free(dense, 3);
    hk_page_heap_purge(0, 0, SIZE_MAX,
                       true); /* After the purge all slices are clean, so mixed uses would save nothing. */
    assert_int_equal(hk_span_alloc(3, HK_USE_SPARSE, &(bool){false}) / HK_CHUNK, sparse / HK_CHUNK);
}

/* Pages of a span that were purged while it was in use do not count as dirty when the span is free. They count again as soon as its slices are
 * used. */
UNIT_TEST(hollow_slices)
{
    start();
    uintptr_t at = hk_span_alloc(2, HK_USE_SPARSE, &(bool){false}),
              other = hk_span_alloc(1, HK_USE_SPARSE, &(bool){false});
    size_t dirty = hk_page_heap_dirty();
    hk_span_free_hollow(at, 2, HK_SLICE);
    assert_int_equal(hk_page_heap_dirty(), dirty - HK_SLICE);
    assert_int_equal(hk_span_alloc(2, HK_USE_SPARSE, &(bool){false}), at);
    assert_int_equal(hk_page_heap_dirty(), dirty);
    hk_span_free_hollow(at, 2, 2 * HK_SLICE); /* All pages were purged, so the slices count as clean. */
    assert_int_equal(hk_page_heap_total().free_dirty, 0);
    assert_int_equal(hk_page_heap_dirty(), dirty - 2 * HK_SLICE);
    hk_span_free_hollow(other, 1, HK_SLICE / 2);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), HK_SLICE);
    assert_int_equal(hk_page_heap_dirty(), 0);
}

UNIT_TEST(purged_reads_as_zero)
{
    start();
    uintptr_t at = hk_span_alloc(2, HK_USE_SPARSE, &(bool){false});
    memset((void *)at, 0xff, 2 * HK_SLICE);
    hk_span_free(at, 2);
    assert_int_equal(hk_span_alloc(2, HK_USE_SPARSE, &(bool){false}), at);
    hk_span_free(at, 2);
    assert_true(hk_page_heap_purge(0, 0, SIZE_MAX, true) >= 2 * HK_SLICE);
    assert_int_equal(hk_span_alloc(2, HK_USE_SPARSE, &(bool){false}), at);
    for (size_t i = 0; i < 2 * HK_SLICE; i += 512)
        assert_int_equal(*(char *)(at + i), 0);
}

UNIT_TEST(extends)
{
    start();
    uintptr_t at = get(4);
    assert_true(hk_span_extend(at, 4, 3));
    uintptr_t next = get(1);
    assert_int_equal(next, at + 7 * HK_SLICE);
    assert_false(hk_span_extend(at, 7, 1));
    hk_span_free(next, 1);
    assert_true(hk_span_extend(at, 7, 2));
    assert_false(hk_span_extend(at, 9, HK_CHUNK_SLICES)); /* A longer span would cross the end of the chunk. */
    size_t rest = HK_CHUNK_SLICES - (at % HK_CHUNK) / HK_SLICE - 9;
    assert_true(hk_span_extend(at, 9, rest));
    assert_false(hk_span_extend(at, 9 + rest, 1));
}

/* A slice is purged when it has been free for the delay. An earlier purge does not purge the slice. */
UNIT_TEST(ages)
{
    start();
    uintptr_t first = get(2);
    uintptr_t second = get(1);
    hk_span_free(first, 2);
    uint64_t now = hk_os.clock_ms();
    assert_int_equal(hk_page_heap_purge(now + 499, 500, SIZE_MAX, false), 0);
    /* The first purge that is due marks dirty slices as aged. The second one purges those that are still aged. */
    assert_int_equal(hk_page_heap_purge(now + 500, 500, SIZE_MAX, false), 0);
    fake_os_pass_ms(500);
    hk_span_free(second, 1);
    assert_int_equal(hk_page_heap_purge(now + 1000, 500, SIZE_MAX, false), 2 * HK_SLICE);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 1);
    assert_int_equal(hk_page_heap_total().free_dirty, HK_SLICE);
    assert_int_equal(hk_page_heap_purge(now + 1500, 500, SIZE_MAX, false), HK_SLICE);
    assert_int_equal(hk_page_heap_total().free_dirty, 0);
    assert_int_equal(hk_page_heap_purge(now + 5000, 500, SIZE_MAX, false), 0);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 2);
}

UNIT_TEST(used_again_is_young_again)
{
    start();
    uintptr_t at = get(2);
    hk_span_free(at, 2);
    uint64_t now = hk_os.clock_ms();
    assert_int_equal(hk_page_heap_purge(now + 500, 500, SIZE_MAX, false), 0);
    assert_int_equal(get(2), at);
    hk_span_free(at, 2);
    assert_int_equal(hk_page_heap_purge(now + 1000, 500, SIZE_MAX, false), 0);
    assert_int_equal(hk_page_heap_purge(now + 1500, 500, SIZE_MAX, false), 2 * HK_SLICE);
}

UNIT_TEST(purge_refused)
{
    start();
    uintptr_t at = get(8);
    hk_span_free(at, 8);
    fake_os_refuse(fake_refuse_purge);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), 0);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 1);
    assert_int_equal(hk_page_heap_total().free_dirty, 8 * HK_SLICE);
    fake_os_refuse(NULL);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), 8 * HK_SLICE);
    assert_int_equal(get(8), at);
}

UNIT_TEST(growth_refused)
{
    start();
    fake_os_refuse(fake_refuse_all);
    assert_int_equal(hk_span_alloc(1, HK_USE_SPARSE, &(bool){false}), 0);
    fake_os_refuse(fake_refuse_mappings);
    assert_int_equal(hk_span_alloc(1, HK_USE_SPARSE, &(bool){false}), 0);
    assert_int_equal(hk_page_heap_total().mapped, 0);
    fake_os_refuse(NULL);
    get(1);
}

/* If the system does not let addresses be chosen, the heap grows where the system maps. */
UNIT_TEST(growth_elsewhere)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    uintptr_t in_window = get(HK_CHUNK_SLICES);
    assert_true(in_window - hk_window_first() < HK_GIB);
    fake_os.places_taken = true;
    uintptr_t elsewhere = get(HK_CHUNK_SLICES);
    for (int i = 0; i < 40; i++)
        elsewhere = get(HK_CHUNK_SLICES);
    assert_true(elsewhere - hk_window_first() > HK_LEAF);
    fake_os.places_taken = false;
    hk_span_free(in_window, HK_CHUNK_SLICES);
    hk_span_free(elsewhere, HK_CHUNK_SLICES);
}

/* The heap skips a mapping that lies in the window. */
UNIT_TEST(growth_around_an_obstacle)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    uintptr_t first = get(HK_CHUNK_SLICES), last = first;
    assert_int_equal(hk_os.map_at((void *)(first + HK_CHUNK), HK_CHUNK), HK_PLACED);
    for (int i = 0; i < 4; i++) {
        uintptr_t at = get(HK_CHUNK_SLICES);
        assert_true(at > last);
        last = at;
    }
    assert_true(last - first < 2 * HK_GIB);
}

/* Growth first maps addresses again that were unmapped, unless another mapping lies there. */
UNIT_TEST(unmapped_and_back)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    uintptr_t at[6], fence = 0;
    for (int i = 0; i < 6; i++)
        at[i] = get(HK_CHUNK_SLICES);
    for (int i = 0; i < 5; i++)
        hk_span_free(at[i], HK_CHUNK_SLICES);
    size_t before = hk_page_heap_total().mapped;
    assert_true(hk_page_heap_unmap(true) == 5 * HK_CHUNK);
    assert_true(hk_page_heap_total().mapped <= before - 5 * HK_CHUNK);
    assert_int_equal(hk_page_heap_dirty(), HK_CHUNK);
    assert_int_equal(hk_page_heap_unmap(true), 0);
    assert_int_equal(hk_os.map_at((void *)at[4], hk_system_page()), HK_PLACED);
    fake_os_refuse(fake_refuse_mappings); /* A refusal does not make the heap forget the addresses. */
    assert_int_equal(hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE, &(bool){false}), 0);
    fake_os_refuse(NULL);
    bool back[4] = {false};
    for (int i = 0; i < 4; i++) {
        uintptr_t again = get(HK_CHUNK_SLICES);
        assert_true(again != at[4]);
        for (int k = 0; k < 4; k++)
            back[k] |= again == at[k];
        for (size_t byte = 1; byte < HK_CHUNK; byte += HK_PAGE)
            assert_int_equal(*(char *)(again + byte), 0);
    }
    assert_true(back[0] && back[1] && back[2] && back[3]);
    fence = get(HK_CHUNK_SLICES);
    assert_true(fence > at[5]);
}

/* Without dirty_too, only clean slices are unmapped. */
UNIT_TEST(unmapping_clean_only)
{
    start();
    uintptr_t cold = get(HK_CHUNK_SLICES), dirty = get(HK_CHUNK_SLICES);
    hk_span_free(cold, HK_CHUNK_SLICES);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    hk_span_free(dirty, HK_CHUNK_SLICES);
    size_t before = hk_page_heap_total().mapped;
    assert_int_equal(hk_page_heap_unmap(false), 0);
    assert_true(hk_page_heap_total().mapped <= before - HK_CHUNK);
    assert_int_equal(hk_page_heap_total().free_dirty, HK_CHUNK);
    assert_int_equal(*(char *)dirty, 1);
    assert_int_equal(hk_page_heap_unmap(true), HK_CHUNK);
}

UNIT_TEST(unmapping_refused)
{
    start();
    uintptr_t at = get(HK_CHUNK_SLICES);
    hk_span_free(at, HK_CHUNK_SLICES);
    struct hk_page_heap_totals before = hk_page_heap_total();
    fake_os_refuse(fake_refuse_unmap);
    assert_int_equal(hk_page_heap_unmap(true), 0);
    fake_os_refuse(NULL);
    struct hk_page_heap_totals after = hk_page_heap_total();
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE, &(bool){false}), at);
}

enum { SLOTS = 100, STEPS = 20000 };

/* Makes many random steps. After each step, no slice may lie in two spans, and the totals must match. */
static void random_load(void)
{
    struct {
        uintptr_t at;
        size_t slices;
    } slots[SLOTS] = {{0, 0}};
    struct rng rng = rng_seeded(4);
    size_t used = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (slots[i].at == 0) {
            slots[i].slices = 1 + rng_below(&rng, rng_below(&rng, 4) == 0 ? 32 : 4);
            slots[i].at = hk_span_alloc(slots[i].slices, i % 2 == 0 ? HK_USE_DENSE : HK_USE_SPARSE, &(bool){false});
            assert_true(slots[i].at != 0);
            for (size_t slice = 0; slice < slots[i].slices; slice++) {
                uint64_t *word = (uint64_t *)(slots[i].at + slice * HK_SLICE);
                *word = i + 1;
            }
            used += slots[i].slices;
        } else {
            for (size_t slice = 0; slice < slots[i].slices; slice++)
                assert_int_equal(*(uint64_t *)(slots[i].at + slice * HK_SLICE), i + 1);
            hk_span_free(slots[i].at, slots[i].slices);
            slots[i].at = 0;
            used -= slots[i].slices;
        }
        if (step % 500 == 0) {
            fake_os_pass_ms(100);
            hk_page_heap_purge(hk_os.clock_ms(), 150, SIZE_MAX, false);
        }
        if (step % 3000 == 0)
            hk_page_heap_unmap(true);
        struct hk_page_heap_totals now = hk_page_heap_total();
        assert_int_equal(now.mapped, used * HK_SLICE + now.free_dirty + now.free_clean);
    }
}

UNIT_TEST(random_load_in_window)
{
    start();
    random_load();
}

UNIT_TEST(random_load_elsewhere)
{
    fake_os.places_taken = true;
    start();
    assert_int_equal(hk_window_first(), 0);
    random_load();
}

static uintptr_t get_dense(size_t slices)
{
    uintptr_t at = hk_span_alloc(slices, HK_USE_DENSE, &(bool){false});
    assert_int_not_equal(at, 0);
    return at;
}

/* The heap is put on huge pages from its first byte. `advised` is the last advice to the system. */
static bool advised;
static bool note_advice(void *p, size_t size, bool wanted)
{
    (void)p;
    (void)size;
    advised = wanted;
    return true;
}

static void start_on_huge_pages(void)
{
    start();
    hk_os.advise_huge = note_advice;
    SET_KNOB(huge_pages_from, 1);
    hk_add(hk_footprint.xbig, 1);
}

/* The first slice in use makes the whole huge page resident, so all its slices count as dirty. They are purged after the delay. */
static size_t purge_after(uint64_t ms)
{
    fake_os_pass_ms(ms);
    return hk_page_heap_purge(hk_os.clock_ms(), 500, SIZE_MAX, false);
}

UNIT_TEST(huge_page_is_dirty_as_a_whole)
{
    size_t beside;
    start_on_huge_pages();
    uintptr_t at = get_dense(4);
    assert_true(advised);
    assert_true(hk_page_heap_on_huge_page(at, &beside));
    assert_int_equal(beside, HK_CHUNK - 4 * HK_SLICE);
    assert_int_equal(hk_page_heap_dirty(), HK_CHUNK);
    assert_int_equal(hk_page_heap_total().free_dirty, beside);
    for (unsigned i = 0; i < 4; i++) { /* While the heap grows into the huge page, no slice is purged. */
        assert_int_equal(purge_after(400), 0);
        get_dense(1);
    }
    for (unsigned i = 0; i < 2; i++)
        purge_after(500);
    assert_int_equal(hk_page_heap_dirty(), 8 * HK_SLICE);
    assert_false(advised); /* The advice is withdrawn, because the system would otherwise reassemble the huge page. */
    assert_false(hk_page_heap_on_huge_page(at, &beside));
}

UNIT_TEST(huge_page_is_not_split_for_little)
{
    size_t beside;
    start_on_huge_pages();
    uintptr_t at = get_dense(HK_CHUNK_SLICES);
    hk_span_free(at, HK_CHUNK_SLICES / HK_PART_WORTH_A_SPLIT - 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(purge_after(500), 0);
    hk_span_free(at + HK_CHUNK - HK_SLICE, 1);
    purge_after(500);
    assert_int_equal(purge_after(500) + purge_after(500), HK_CHUNK / HK_PART_WORTH_A_SPLIT);
    assert_false(hk_page_heap_on_huge_page(at, &beside));
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), 0);
}

/* A purge of excess leaves a huge page whole that is mostly in use, and purges the chunks behind it. So does the next purge in the same ms. */
UNIT_TEST(spared_huge_page_hides_nothing)
{
    start_on_huge_pages();
    uintptr_t used = get_dense(HK_CHUNK_SLICES), others[2];
    for (unsigned i = 0; i < 2; i++)
        others[i] = get_dense(HK_CHUNK_SLICES);
    hk_span_free(used, 7);
    for (unsigned i = 0; i < 2; i++) {
        hk_span_free(others[i], HK_CHUNK_SLICES);
        assert_int_equal(hk_page_heap_purge_excess(0, SIZE_MAX), HK_CHUNK);
    }
    assert_int_equal(hk_page_heap_total().free_dirty, 7 * HK_SLICE);
}

static uintptr_t freed_in_purge;

static bool free_in_purge(enum fake_call call, uint64_t ordinal)
{
    (void)ordinal;
    uintptr_t chunk = call == FAKE_PURGE ? freed_in_purge : 0;
    if (chunk != 0) {
        freed_in_purge = 0;
        hk_span_free(chunk, HK_CHUNK_SLICES);
        assert_int_equal(hk_page_heap_purge_excess(0, SIZE_MAX), 0);
    }
    return false;
}

/* A purge of excess also purges what is freed while it runs, and what may stay idle stays. A second purge at the same time purges nothing. */
UNIT_TEST(excess_of_the_meantime)
{
    uintptr_t chunks[3];
    start();
    for (unsigned i = 0; i < 3; i++)
        chunks[i] = get(HK_CHUNK_SLICES);
    hk_span_free(chunks[0], HK_CHUNK_SLICES);
    size_t idle = hk_page_heap_total().free_dirty;
    assert_int_equal(hk_page_heap_purge_excess(idle, SIZE_MAX), 0);
    hk_span_free(chunks[1], HK_CHUNK_SLICES);
    freed_in_purge = chunks[2];
    fake_os_refuse(free_in_purge);
    assert_int_equal(hk_page_heap_purge_excess(idle, SIZE_MAX), 2 * HK_CHUNK);
    assert_int_equal(hk_page_heap_total().free_dirty, idle);
}

UNIT_TEST(huge_page_is_split_by_a_full_purge)
{
    start_on_huge_pages();
    uintptr_t at = get_dense(HK_CHUNK_SLICES);
    hk_span_free(at, 1);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), HK_SLICE);
    assert_false(advised);
}

UNIT_TEST(huge_page_that_is_free_stays_one)
{
    size_t beside;
    start_on_huge_pages();
    uintptr_t at = get_dense(HK_CHUNK_SLICES);
    hk_span_free(at, HK_CHUNK_SLICES);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), HK_CHUNK);
    assert_true(advised);
    assert_int_equal(hk_page_heap_dirty(), 0);
    assert_int_equal(get_dense(1), at);
    assert_true(hk_page_heap_on_huge_page(at, &beside));
    assert_int_equal(hk_page_heap_dirty(), HK_CHUNK);
}

UNIT_TEST(huge_page_purged_by_its_user)
{
    size_t beside;
    start_on_huge_pages();
    uintptr_t at = get_dense(HK_CHUNK_SLICES);
    *(char *)at = 1;
    assert_true(hk_span_purge(at, HK_PAGE));
    assert_int_equal(*(char *)at, 0);
    assert_false(advised);
    assert_false(hk_page_heap_on_huge_page(at, &beside));
}

/* A slice may fit into the limit although a huge page does not. */
UNIT_TEST(huge_page_over_the_limit)
{
    size_t beside;
    start_on_huge_pages();
    hk_options.limit = HK_CHUNK / 2;
    uintptr_t at = get_dense(1);
    assert_false(hk_page_heap_on_huge_page(at, &beside));
    assert_int_equal(hk_page_heap_dirty(), HK_SLICE);
}

/* A child of a fork shares its parent's pages. Its first new memory lies on small pages, even in chunks for which the parent asked for huge pages. */
UNIT_TEST(small_pages_at_first_after_a_fork)
{
    size_t beside;
    start_on_huge_pages();
    SET_KNOB(huge_pages_from, HK_CHUNK);
    hk_add(hk_footprint.xbig, HK_CHUNK);
    uintptr_t in_parent = get_dense(HK_CHUNK_SLICES);
    uintptr_t prepared = get_dense(1); /* so that the arena grows by a chunk */
    hk_span_free(prepared, 1);
    (void)hk_page_heap_purge(0, 0, SIZE_MAX, true);
    assert_true(hk_page_map_chunk(in_parent)->xhuge);
    assert_true(hk_page_map_chunk(prepared)->xhuge);
    hk_footprint_fork_child();
    size_t dirty = hk_page_heap_dirty();
    assert_int_equal(get_dense(HK_CHUNK_SLICES), prepared);
    assert_false(hk_page_heap_on_huge_page(prepared, &beside));
    assert_int_equal(hk_page_heap_dirty(), dirty + HK_CHUNK);
    assert_true(hk_page_heap_on_huge_page(get_dense(1), &beside));
}

/* A child that has freed what it inherited counts its growth from then on. */
UNIT_TEST(growth_of_a_child_that_has_shrunk)
{
    start();
    hk_add(hk_footprint.xbig, 8 * HK_MIB);
    hk_footprint_fork_child();
    assert_int_equal(hk_footprint_grown(), 0);
    hk_sub(hk_footprint.xbig, 6 * HK_MIB);
    assert_int_equal(hk_footprint_grown(), 0);
    hk_add(hk_footprint.xbig, 4 * HK_MIB);
    assert_int_equal(hk_footprint_grown(), 4 * HK_MIB);
    hk_sub(hk_footprint.xbig, 6 * HK_MIB);
    assert_int_equal(hk_footprint_grown(), 0);
    hk_add(hk_footprint.xbig, 8 * HK_MIB);
    assert_int_equal(hk_footprint_grown(), 8 * HK_MIB);
}

/* Spans that the program may use sparsely (HK_USE_UNSURE) lie in dense chunks while they are a small part of all dense chunks. */
UNIT_TEST(unsure)
{
    start();
    uintptr_t first = hk_span_alloc(1, HK_USE_UNSURE, &(bool){false});
    assert_int_equal(hk_page_map_chunk(first)->use, HK_USE_SPARSE);
    get_dense(HK_CHUNK_SLICES);
    uintptr_t staked = hk_span_alloc(1, HK_USE_UNSURE, &(bool){false}),
              more = hk_span_alloc(16, HK_USE_UNSURE, &(bool){false});
    assert_int_equal(hk_page_map_chunk(staked)->use, HK_USE_DENSE);
    assert_int_equal(hk_page_map_chunk(more)->use, HK_USE_SPARSE);
    assert_true(hk_span_extend(staked, 1, 9));
    assert_int_equal(hk_page_map_chunk(hk_span_alloc(8, HK_USE_UNSURE, &(bool){false}))->use, HK_USE_SPARSE);
    hk_span_free(staked, 10);
    assert_int_equal(hk_page_map_chunk(hk_span_alloc(8, HK_USE_UNSURE, &(bool){false}))->use, HK_USE_DENSE);
}

/* The chunk that has been dirty longest is purged first, as a whole, until enough is purged. A chunk whose slices became dirty later is not
 * purged. */
UNIT_TEST(oldest_first)
{
    enum { COUNT = 4 };
    uintptr_t chunks[COUNT];
    start();
    for (unsigned i = 0; i < COUNT; i++)
        chunks[i] = get(HK_CHUNK_SLICES);
    for (unsigned i = 0; i < COUNT; i++) {
        fake_os_pass_ms(100);
        hk_span_free(chunks[i], HK_CHUNK_SLICES);
    }
    uint64_t now = hk_os.clock_ms();
    assert_int_equal(hk_page_heap_purge(now, 20, HK_CHUNK + 1, false), 2 * HK_CHUNK);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(*(char *)chunks[i], i < 2 ? 0 : 1);
    assert_int_equal(hk_page_heap_purge(now, 20, COUNT * HK_CHUNK, false), HK_CHUNK);
    assert_int_equal(hk_page_heap_purge(now + 19, 20, COUNT * HK_CHUNK, false), 0);
    assert_int_equal(hk_page_heap_total().free_dirty, HK_CHUNK);
    assert_int_equal(hk_page_heap_purge(now + 20, 20, COUNT * HK_CHUNK, false), HK_CHUNK);
    assert_int_equal(hk_page_heap_total().free_dirty, 0);
}

/* A chunk was mapped while the heap was small, and purged later. It moves to a huge page when the heap is larger and uses it again. */
UNIT_TEST(huge_pages_for_purged_chunks)
{
    start();
    SET_KNOB(huge_pages_from, 0);
    uintptr_t at = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_DENSE, &(bool){false});
    memset((void *)at, 1, HK_CHUNK);
    hk_span_free(at, HK_CHUNK_SLICES);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    assert_int_equal(hk_span_alloc(1, HK_USE_DENSE, &(bool){false}), at);
    assert_false(hk_page_map_chunk(at)->xhuge);
    SET_KNOB(huge_pages_from, 1);
    hk_span_alloc(1, HK_USE_DENSE, &(bool){false});
    assert_false(hk_page_map_chunk(at)->xhuge); /* A used slice keeps the chunk from a huge page. */
    hk_span_free(at, 2);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    hk_add(hk_footprint.xbig, 1);
    assert_int_equal(hk_span_alloc(1, HK_USE_DENSE, &(bool){false}), at);
    assert_true(hk_page_map_chunk(at)->xhuge);
    assert_int_equal(hk_page_heap_dirty(), HK_CHUNK);
    hk_span_free(at, 1);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), HK_CHUNK);
    assert_int_equal(hk_page_heap_dirty(), 0);
}

/* The sizes in slices of the last calls of populate(). */
enum { MOST_POPULATED = 64 };
static size_t populated[MOST_POPULATED], calls_of_populate;
static bool note_populate(void *p, size_t size)
{
    assert_int_equal(*(const char *)p, 0);
    populated[calls_of_populate++ % MOST_POPULATED] = size / HK_SLICE;
    return true;
}

static bool refuse_populate(void *p, size_t size)
{
    (void)p;
    (void)size;
    calls_of_populate++;
    return false;
}

/* The heap grows without huge pages, and counts as large. */
static void start_growing(void)
{
    start();
    SET_KNOB(huge_pages_from, 0);
    hk_os.populate = note_populate;
    calls_of_populate = 0;
    hk_page_heap.ahead = 0;
    hk_store(hk_page_heap.xprefault_refused, false);
    hk_add(hk_footprint.xbig, 64 * HK_MIB);
}

static uintptr_t get_growing(void)
{
    bool blank = false;
    uintptr_t at = hk_span_alloc(1, HK_USE_GROWING, &blank);
    assert_true(at != 0 && blank);
    return at;
}

/* The window doubles while spans use it. */
UNIT_TEST(prefault_doubles)
{
    static const size_t expected[] = {1, 2, 3, 5, 9};
    start_growing();
    for (unsigned i = 0; i < 1 + 2 + 3 + 5 + 9; i++)
        *(char *)get_growing() = 1;
    assert_int_equal(calls_of_populate, 5);
    assert_memory_equal(populated, expected, sizeof expected);
    assert_int_equal(hk_page_heap_total().free_dirty, 0);
    get_growing();
    assert_true(populated[5] > 1 && populated[5] <= 9);
    assert_int_equal(hk_page_heap_total().free_dirty, (populated[5] - 1) * HK_SLICE);
}

/* The window closes if slices of it are purged before a span has used them. */
UNIT_TEST(prefault_closes)
{
    start_growing();
    for (unsigned i = 0; i < 4; i++)
        get_growing();
    assert_int_equal(populated[2], 3);
    assert_int_equal(hk_page_heap_total().free_dirty, 2 * HK_SLICE);
    purge_after(600);
    assert_int_equal(purge_after(600), 2 * HK_SLICE);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_prefault_unused]), 2 * HK_SLICE);
    assert_int_equal(hk_page_heap.ahead, 0);
    hk_span_alloc(1, HK_USE_GROWING, &(bool){false});
    assert_int_equal(populated[3], 1);
}

/* Spans of other uses, small heaps, heaps that may stand on huge pages and heaps at a limit populate nothing, or no more than the limit allows. */
UNIT_TEST(prefault_only_where_it_may)
{
    start_growing();
    get_dense(1);
    get(1);
    hk_sub(hk_footprint.xbig, 61 * HK_MIB);
    get_growing();
    SET_KNOB(huge_pages_from, (uint64_t)1 << 40);
    hk_add(hk_footprint.xbig, 61 * HK_MIB);
    if (hk_thp_serves())
        get_growing();
    SET_KNOB(huge_pages_from, 0);
    SET_KNOB(ceiling, hk_footprint_bytes() - HK_SLICE);
    get_growing();
    assert_int_equal(calls_of_populate, 0);
    SET_KNOB(ceiling, hk_footprint_bytes() + HK_SLICE);
    hk_page_heap.ahead = 8;
    get_growing();
    assert_int_equal(populated[0], 1);
    SET_KNOB(ceiling, (uint64_t)1 << 40);
    hk_options.limit = hk_footprint_bytes() + 2 * HK_SLICE;
    get_growing();
    assert_int_equal(populated[1], 1);
    hk_options.limit = 0;
    get_growing();
    assert_in_range(populated[2], 2, 9);
}

/* If the system refuses once, the heap does not ask again. The slices of the window count as dirty, because some may be resident. */
UNIT_TEST(prefault_refused)
{
    start_growing();
    hk_os.populate = refuse_populate;
    hk_page_heap.ahead = 2;
    get_growing();
    assert_int_equal(hk_page_heap_total().free_dirty, 2 * HK_SLICE);
    for (unsigned i = 0; i < 8; i++)
        get_growing();
    assert_int_equal(calls_of_populate, 1);
}

static unsigned calls_of_purge_all, most_ranges;
static bool purge_all_here(const struct hk_os_range *ranges, size_t count)
{
    calls_of_purge_all++;
    most_ranges = (unsigned)hk_max(most_ranges, count);
    for (size_t i = 0; i < count; i++)
        memset((void *)ranges[i].start, 0, ranges[i].size);
    return true;
}

static bool refuse_purge_all(const struct hk_os_range *ranges, size_t count)
{
    (void)ranges;
    (void)count;
    calls_of_purge_all++;
    return false;
}

/* Frees every second slice of some chunks, and returns their number. */
enum { HOLES = 3 * HK_CHUNK_SLICES / 2 };
static void make_holes(void)
{
    start();
    hk_options.free_policy = HK_FREE_BATCH;
    for (unsigned i = 0; i < 3; i++) {
        uintptr_t chunk = get(HK_CHUNK_SLICES);
        memset((void *)chunk, 1, HK_CHUNK);
        for (unsigned slice = 0; slice < HK_CHUNK_SLICES; slice += 2)
            hk_span_free(chunk + slice * HK_SLICE, 1);
    }
    assert_int_equal(hk_page_heap_total().free_dirty, HOLES * HK_SLICE);
}

/* One system call purges up to 32 ranges. */
UNIT_TEST(purges_in_batches)
{
    make_holes();
    hk_os.purge_all = purge_all_here;
    assert_int_equal(hk_page_heap_purge(0, 0, 3 * HK_SLICE, true), 3 * HK_SLICE);
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), (HOLES - 3) * HK_SLICE);
    assert_int_equal(calls_of_purge_all, 3);
    assert_int_equal(most_ranges, 32);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purge_batches]), 3);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purges]), HOLES);
    assert_int_equal(hk_page_heap_total().free_dirty, 0);
}

/* If the kernel cannot purge several ranges at once, each range takes a call, and the heap asks only once. */
UNIT_TEST(purges_singly_if_refused)
{
    make_holes();
    hk_os.purge_all = refuse_purge_all;
    assert_int_equal(hk_page_heap_purge(0, 0, SIZE_MAX, true), HOLES * HK_SLICE);
    assert_int_equal(calls_of_purge_all, 1);
    assert_int_equal(fake_os_calls(FAKE_PURGE), HOLES);
    assert_int_equal(hk_page_heap_total().free_dirty, 0);
}

/* The fullest huge page serves a request, although an emptier one has the tighter fit. */
UNIT_TEST(fullest_huge_page_first)
{
    start_on_huge_pages();
    uintptr_t emptier = get_dense(HK_CHUNK_SLICES), fuller = get_dense(HK_CHUNK_SLICES);
    for (unsigned slice = 0; slice < HK_CHUNK_SLICES; slice += 2)
        hk_span_free(emptier + slice * HK_SLICE, 1);
    hk_span_free(fuller + 4 * HK_SLICE, 3);
    assert_int_equal(get_dense(1), fuller + 4 * HK_SLICE);
}

/* A slice counts as dirty from its first use until it is purged. */
static void dirty_follows(void)
{
    assert_int_equal(hk_page_heap_dirty(), 0);
    uintptr_t at = get(4);
    assert_int_equal(hk_page_heap_dirty(), 4 * HK_SLICE);
    hk_span_free(at, 4);
    assert_int_equal(hk_page_heap_dirty(), 4 * HK_SLICE);
    assert_int_equal(get(3), at); /* The span consists of three of the four dirty slices. */
    assert_int_equal(hk_page_heap_dirty(), 4 * HK_SLICE);
    assert_true(hk_span_extend(at, 3, 3)); /* Adds the fourth dirty slice and two clean ones. */
    assert_int_equal(hk_page_heap_dirty(), 6 * HK_SLICE);
    uintptr_t other = get(1);
    hk_span_free(at, 6);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    assert_int_equal(hk_page_heap_dirty(), HK_SLICE);
    hk_span_free(other, 1);
    hk_page_heap_purge(hk_os.clock_ms(), 0, SIZE_MAX, false);
    assert_int_equal(hk_page_heap_dirty(), 0);
    get(2);
    assert_int_equal(hk_page_heap_dirty(), 2 * HK_SLICE);
}

UNIT_TEST(dirty_in_window)
{
    start();
    dirty_follows();
}

UNIT_TEST(dirty_elsewhere)
{
    fake_os.places_taken = true;
    start();
    dirty_follows();
}

UNIT_TEST(dirty_if_refused)
{
    start();
    uintptr_t at = get(4);
    hk_span_free(at, 4);
    fake_os_refuse(fake_refuse_purge);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    assert_int_equal(hk_page_heap_dirty(), 4 * HK_SLICE);
    fake_os_refuse(NULL);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    assert_int_equal(hk_page_heap_dirty(), 0);
}

UNIT_TEST(slices)
{
    start();
    uintptr_t at = get(3);
    assert_int_equal(hk_page_heap_slice(at + 2 * HK_SLICE), HK_SLICE_USED);
    hk_span_free(at + HK_SLICE, 2);
    assert_int_equal(hk_page_heap_slice(at), HK_SLICE_USED);
    assert_int_equal(hk_page_heap_slice(at + HK_SLICE), HK_SLICE_FREE);
    assert_true(hk_page_map_cover((uintptr_t)&at, 1));
    assert_int_equal(hk_page_heap_slice((uintptr_t)&at), HK_SLICE_FOREIGN);
}

UNIT_TEST(extends_to_the_end)
{
    start();
    uintptr_t chunk = get(HK_CHUNK_SLICES);
    hk_span_free(chunk, HK_CHUNK_SLICES);
    uintptr_t most = get(HK_CHUNK_SLICES - 2), last = get(1);
    assert_int_equal(most, chunk);
    assert_int_equal(last, chunk + (HK_CHUNK_SLICES - 2) * HK_SLICE);
    hk_span_free(most, HK_CHUNK_SLICES - 2);
    assert_false(hk_span_extend(last, 1, 2));
    assert_true(hk_span_extend(last, 1, 1));
    assert_false(hk_span_extend(last, 2, 1));
    assert_int_equal(hk_page_heap_total().free_dirty, (HK_CHUNK_SLICES - 2) * HK_SLICE);
}

static size_t mapped_by_uses(void)
{
    return hk_page_heap.arenas[HK_USE_DENSE].mapped + hk_page_heap.arenas[HK_USE_SPARSE].mapped;
}

/* The page heap counts each chunk for one use at a time. While a span of HK_USE_UNSURE exists, hk_page_heap_stake() is smaller. */
UNIT_TEST(counts_by_use)
{
    start();
    uintptr_t chunk = get(HK_CHUNK_SLICES);
    hk_span_free(chunk, HK_CHUNK_SLICES);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    uintptr_t dense = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_DENSE, &(bool){false});
    assert_int_equal(dense, chunk); /* Because of its new use, the chunk counts as dense. */
    assert_int_equal(mapped_by_uses(), hk_page_heap_total().mapped);
    size_t stake = hk_page_heap_stake();
    hk_span_free(dense, HK_CHUNK_SLICES);
    uintptr_t unsure = hk_span_alloc(2, HK_USE_UNSURE, &(bool){false});
    assert_true(hk_page_heap_stake() < stake);
    hk_span_free(unsure, 2);
    assert_int_equal(hk_page_heap_stake(), stake);
}

/* If clean slices would exceed the limit, a chunk with dirty slices is used, although another chunk fits more tightly. */
UNIT_TEST(dirty_within_the_limit)
{
    start();
    uintptr_t tight = get(HK_CHUNK_SLICES), loose = get(HK_CHUNK_SLICES);
    hk_span_free(tight, HK_CHUNK_SLICES);
    hk_page_heap_purge(0, 0, SIZE_MAX, true); /* All slices are clean. */
    uintptr_t most = get(HK_CHUNK_SLICES - 5), dirty = get(1);
    hk_span_free(loose, HK_CHUNK_SLICES);
    hk_span_free(dirty, 1); /* The hole has a dirty slice, and four clean ones at higher addresses. */
    assert_true(most / HK_CHUNK == dirty / HK_CHUNK);
    hk_options.limit = hk_page_heap_dirty();
    for (unsigned i = 0; i < HK_CHUNK_SLICES / 4; i++)
        assert_int_equal(get(4) / HK_CHUNK, loose / HK_CHUNK);
    assert_int_equal(get(1), dirty);
    assert_int_equal(hk_span_alloc(1, HK_USE_SPARSE, &(bool){false}), 0); /* The limit allows no clean slices. */
}

UNIT_TEST(hole_filled_in_parts)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    uintptr_t chunk = get(HK_CHUNK_SLICES);
    hk_span_free(chunk, HK_CHUNK_SLICES);
    hk_store(hk_footprint.xscarce, true);
    hk_page_heap_unmap(true);
    assert_int_equal(hk_page_heap_total().mapped, 0);
    size_t mapped = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(get(4), chunk + mapped);
        assert_int_equal(hk_page_heap_total().mapped, mapped += 4 * HK_SLICE);
    }
}

/* If the system refuses a large growth, the heap asks for half of it, and so on, down to the size that it needs. */
static bool refuse_the_first(enum fake_call call, uint64_t ordinal)
{
    return (call == FAKE_MAP || call == FAKE_MAP_AT) && ordinal <= 4;
}

UNIT_TEST(growth_by_halves)
{
    start();
    fake_os_refuse(refuse_the_first);
    assert_true(hk_span_alloc(1, HK_USE_SPARSE, &(bool){false}) != 0);
    assert_true(hk_page_heap_total().mapped < HK_CHUNK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_fits),
        cmocka_unit_test(dirty_slices_of_the_other_use),
        cmocka_unit_test(hollow_slices),
        cmocka_unit_test(purged_reads_as_zero),
        cmocka_unit_test(extends),
        cmocka_unit_test(hole_filled_in_parts),
        cmocka_unit_test(dirty_within_the_limit),
        cmocka_unit_test(counts_by_use),
        cmocka_unit_test(extends_to_the_end),
        cmocka_unit_test(ages),
        cmocka_unit_test(used_again_is_young_again),
        cmocka_unit_test(purge_refused),
        cmocka_unit_test(growth_refused),
        cmocka_unit_test(growth_by_halves),
        cmocka_unit_test(growth_elsewhere),
        cmocka_unit_test(growth_around_an_obstacle),
        cmocka_unit_test(unmapped_and_back),
        cmocka_unit_test(unmapping_clean_only),
        cmocka_unit_test(unmapping_refused),
        cmocka_unit_test(huge_page_is_dirty_as_a_whole),
        cmocka_unit_test(huge_page_is_not_split_for_little),
        cmocka_unit_test(spared_huge_page_hides_nothing),
        cmocka_unit_test(excess_of_the_meantime),
        cmocka_unit_test(huge_page_is_split_by_a_full_purge),
        cmocka_unit_test(huge_page_that_is_free_stays_one),
        cmocka_unit_test(huge_page_purged_by_its_user),
        cmocka_unit_test(huge_page_over_the_limit),
        cmocka_unit_test(small_pages_at_first_after_a_fork),
        cmocka_unit_test(growth_of_a_child_that_has_shrunk),
        cmocka_unit_test(unsure),
        cmocka_unit_test(oldest_first),
        cmocka_unit_test(huge_pages_for_purged_chunks),
        cmocka_unit_test(dirty_in_window),
        cmocka_unit_test(dirty_elsewhere),
        cmocka_unit_test(dirty_if_refused),
        cmocka_unit_test(slices),
        cmocka_unit_test(prefault_doubles),
        cmocka_unit_test(purges_in_batches),
        cmocka_unit_test(purges_singly_if_refused),
        cmocka_unit_test(fullest_huge_page_first),
        cmocka_unit_test(prefault_closes),
        cmocka_unit_test(prefault_only_where_it_may),
        cmocka_unit_test(prefault_refused),
        cmocka_unit_test(random_load_in_window),
        cmocka_unit_test(random_load_elsewhere),
    };
    return cmocka_run_group_tests_name("page_heap", tests, NULL, NULL);
}
