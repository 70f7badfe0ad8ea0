/* Tests large blocks: reuse within the allowed fit, the budget of the cache, purging by age, growth by remapping, and a system that refuses to
 * unmap. */
#include "unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/lock.h"
#include "slab/abandoned.h"
#include "span/page_heap.h"
#include "support/knobs.h"
#include "base/inline_copy.h"
#include "large/large.h"

#define MB HK_MIB

static struct hk_large_totals totals(void)
{
    struct hk_large_totals now = hk_large_total();
    return now;
}

static char *get(size_t size, bool reused)
{
    bool zeroed;
    uint64_t before = fake_os_calls(FAKE_MAP) + fake_os_calls(FAKE_MAP_AT);
    char *block = hk_large_alloc(size, 16, &zeroed);
    assert_non_null(block);
    assert_int_equal(fake_os_calls(FAKE_MAP) + fake_os_calls(FAKE_MAP_AT) == before, reused);
    assert_int_equal(zeroed, !reused);
    block[0] = block[size - 1] = 1;
    return block;
}

/* Starts the heap without huge pages, because blocks on huge pages have longer mappings. */
static void start(void)
{
    unit_start();
    SET_KNOB(huge_blocks_from, 0);
    hk_large_free(get(2 * MB, false)); /* This pair of calls creates the tables for large blocks. */
    hk_large_purge(0, 0, SIZE_MAX);
    fake_os_refuse(NULL);
}

UNIT_TEST(reuse)
{
    start();
    char *block = get(3 * MB, false);
    hk_large_free(block);
    assert_int_equal(totals().cached, 3 * MB);
    assert_ptr_equal(get(3 * MB, true), block);
    assert_int_equal(totals().cached, 0);
    assert_int_equal(totals().live, 3 * MB);
    assert_int_equal(totals().blocks, 1);
    assert_int_equal(fake_os_calls(FAKE_UNMAP), 0);
}

/* A request takes the cached block whose size is nearest. It takes no block that is longer than large_fit percent of the request. */
UNIT_TEST(fit)
{
    start();
    char *longest = get(14 * MB, false), *middle = get(12 * MB, false);
    hk_large_free(longest);
    hk_large_free(middle);
    get(29 * MB / 10, false);
    assert_ptr_equal(get(9 * MB, true), middle);
    assert_ptr_equal(get(10 * MB + 65536, true), longest);
    assert_int_equal(totals().blocks, 3);
    SET_KNOB(large_fit, 140);
    hk_large_free(longest);
    get(99 * MB / 10, false);
    assert_ptr_equal(get(10 * MB, true), longest);
}

/* Slack counts as cached memory. The block grows into its slack without a system call. Slack is purged after the delay. */
UNIT_TEST(spare)
{
    start();
    char *block = get(12 * MB, false);
    hk_large_free(block);
    assert_ptr_equal(get(4 * MB, true), block);
    assert_int_equal(totals().live, 4 * MB);
    assert_int_equal(totals().cached, 8 * MB);
    uint64_t remaps = fake_os_calls(FAKE_REMAP);
    assert_ptr_equal(hk_large_resize(block, 6 * MB), block);
    block[6 * MB - 1] = 'x';
    assert_int_equal(fake_os_calls(FAKE_REMAP), remaps);
    assert_int_equal(totals().live, 6 * MB);
    assert_int_equal(totals().cached, 6 * MB);
    assert_int_equal(hk_large_purge(hk_os.clock_ms(), 500, SIZE_MAX), 0);
    fake_os_pass_ms(500);
    assert_int_equal(hk_large_purge(hk_os.clock_ms(), 500, SIZE_MAX), 6 * MB);
    assert_int_equal(totals().cached, 0);
    assert_int_equal(block[6 * MB - 1], 'x');
    char *grown = hk_large_resize(block, 7 * MB);
    assert_non_null(grown);
    grown[7 * MB - 1] = 1;
    assert_int_equal(totals().live, 7 * MB);
    hk_large_free(grown);
    assert_int_equal(totals().live, 0);
    assert_int_equal(totals().cached, 7 * MB);
}

static void let_huge_pages_be_used(void)
{
    SET_KNOB(huge_blocks_from, 1 * MB);
    for (unsigned i = 0; i < 12; i++) {
        hk_large_free(memset(get(2 * MB, false), 1, 2 * MB));
        hk_large_purge(0, 0, SIZE_MAX);
    }
}

static bool on_huge_pages(const char *block) { return ((uintptr_t)block + hk_large_lead()) % HK_CHUNK == 0; }

/* After eight blocks of which the program wrote little, new blocks lie on small pages, until a block is used. A block on huge pages is unmapped. A
 * block whose mapping was modified is not read. */
UNIT_TEST(little_used)
{
    start();
    let_huge_pages_be_used();
    char *first = get(4 * MB, false), *modified = get(4 * MB, false);
    assert_true(on_huge_pages(first) && on_huge_pages(modified));
    memset(modified, 1, 4 * MB);
    hk_large_note_modified((uintptr_t)modified, 4 * MB);
    for (unsigned i = 0; i < 8; i++) {
        hk_large_free(get(5 * MB, i != 0));
        if (i == 0)
            hk_large_free(modified);
    }
    hk_large_purge(0, 0, SIZE_MAX);
    assert_int_equal(totals().cached, 0);
    assert_false(on_huge_pages(get(4 * MB, false)));
    uint64_t unused = hk_load(hk_global_counts[HK_GLOBAL_large_unused]);
    hk_large_free(first);
    assert_int_equal(totals().cached, 0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_large_unused]), unused + 1);
    for (unsigned i = 0; i < 64; i++) {
        hk_large_free(memset(get(6 * MB, false), 1, 6 * MB));
        hk_large_purge(0, 0, SIZE_MAX);
    }
    assert_true(on_huge_pages(get(4 * MB, false)));
}

/* Blocks in use at once lie one below the other, so that their addresses fall as fast as the number of freed bytes rises. */
UNIT_TEST(little_used_then_many_used)
{
    start();
    let_huge_pages_be_used();
    for (size_t size = 2 * MB; size < 10 * MB; size += MB) {
        for (unsigned i = 0; i < 8; i++)
            hk_large_free(get(5 * MB, i != 0));
        hk_large_purge(0, 0, SIZE_MAX);
        char *block[48];
        for (unsigned i = 0; i < 48; i++)
            block[i] = memset(get(size, false), 1, size);
        for (unsigned i = 0; i < 48; i++)
            hk_large_free(block[i]);
        hk_large_purge(0, 0, SIZE_MAX);
        char *next = get(4 * MB, false);
        assert_true(on_huge_pages(next));
        hk_large_free(memset(next, 1, 4 * MB));
        hk_large_purge(0, 0, SIZE_MAX);
    }
}

/* A protection may zero freed blocks, or make them fault. */
UNIT_TEST(little_used_and_protected)
{
    start();
    let_huge_pages_be_used();
    hk_large_freed_are_intact = false;
    for (unsigned i = 0; i < 16; i++)
        hk_large_free(get(5 * MB, i != 0));
    hk_large_purge(0, 0, SIZE_MAX);
    assert_true(on_huge_pages(get(4 * MB, false)));
    hk_large_freed_are_intact = true;
}

/* A mapping on huge pages is rounded up to whole huge pages if this makes it at most a third longer. The added bytes are ordinary slack. */
UNIT_TEST(whole_huge_pages)
{
    start();
    let_huge_pages_be_used();
    char *block = get(7 * MB / 2, false);
    assert_true(on_huge_pages(block));
    assert_int_equal(totals().live, 7 * MB / 2);
    assert_int_equal(totals().cached, MB / 2 + hk_large_lead());
    assert_ptr_equal(hk_large_resize(block, 4 * MB), block);
    assert_int_equal(totals().cached, 0);
    assert_int_equal(totals().live, 4 * MB + hk_large_lead());
    /* The slack is shorter than the lead, and cutting it off would split a huge page. */
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 0);
    assert_ptr_equal(hk_large_resize(block, 4 * MB + hk_large_lead()), block);
    hk_options.limit = hk_large_mapped() + 15 * MB / 4;
    char *within = get(15 * MB / 4, false); /* The limit leaves no room for slack. */
    assert_int_equal(totals().cached, 0);
    hk_options.limit = 0;
    hk_large_free(within);
    hk_large_purge(0, 0, SIZE_MAX);
    char *uneven = get(5 * MB / 2, false);
    assert_int_equal(totals().cached, 0);
    hk_large_free(uneven);
    hk_large_free(block);
    assert_int_equal(totals().live, 0);
}

static char *led(size_t size)
{
    char *block = get(size, false);
    assert_true(on_huge_pages(block));
    return block;
}

/* A new block lies at the address where the last block was unmapped, unless the new one is longer. A second new block lies elsewhere. A mapping
 * that the program made at this address is never replaced. */
UNIT_TEST(maps_where_vacant)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    SET_KNOB(huge_blocks_from, 4 * MB);
    SET_KNOB(large_cache, 0);
    char *block = led(8 * MB);
    hk_large_free(block);
    assert_ptr_equal(led(8 * MB), block);
    assert_ptr_not_equal(led(8 * MB), block);
    hk_large_free(block);
    assert_ptr_not_equal(led(12 * MB), block);
    assert_ptr_equal(led(5 * MB), block);
    hk_large_free(block);
    char *other = mmap(block, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_equal(other, block);
    assert_ptr_not_equal(led(5 * MB), block);
    assert_int_equal(*other, 0);
    bool zeroed;
    assert_int_equal((uintptr_t)hk_large_alloc(8 * MB, 8192, &zeroed) % HK_CHUNK, 0);
}

/* A mapping is not rounded up if purging or the budget would take the added bytes away, or if the longer mapping would not fit a request of that
 * size again. */
UNIT_TEST(no_whole_huge_pages)
{
    start();
    let_huge_pages_be_used();
    SET_KNOB(large_fit, 110);
    hk_large_free(get(7 * MB / 2, false));
    assert_int_equal(totals().cached, 7 * MB / 2);
    SET_KNOB(large_fit, 400);
    SET_KNOB(purge_delay, 0);
    hk_large_purge(0, 0, SIZE_MAX);
    hk_large_free(get(7 * MB / 2, false));
    assert_int_equal(totals().cached, 7 * MB / 2);
    SET_KNOB(purge_delay, 500);
    SET_KNOB(large_cache, MB / 4);
    hk_large_purge(0, 0, SIZE_MAX);
    get(7 * MB / 2, false);
    assert_int_equal(totals().cached, 0);
}

/* A block that shrinks keeps the bytes after its new end as slack for later growth, up to a limit. */
UNIT_TEST(shrunk)
{
    start();
    char *block = get(8 * MB, false);
    assert_ptr_equal(hk_large_resize(block, 3 * MB), block);
    assert_int_equal(totals().cached, 5 * MB);
    assert_ptr_equal(hk_large_resize(block, 1 * MB), block);
    assert_int_equal(totals().cached, 0);
    assert_int_equal(totals().live, 1 * MB);
}

UNIT_TEST(spares_over_budget)
{
    SET_KNOB(large_cache, 4 * MB);
    start();
    char *block = get(8 * MB, false), *other = get(2 * MB, false);
    hk_large_resize(block, 3 * MB);
    SET_KNOB(large_cache, 1 * MB);
    hk_large_free(other);
    hk_large_free(get(2 * MB, false));
    assert_true(totals().cached <= 1 * MB);
    assert_int_equal(totals().live, 3 * MB);
}

UNIT_TEST(grown_to_fit)
{
    bool zeroed;
    start();
    char *block = get(10 * MB, false);
    block[7 * MB] = 'x';
    hk_large_free(block);
    char *grown = hk_large_alloc(15 * MB, 16, &zeroed);
    assert_non_null(grown);
    assert_false(zeroed);
    assert_int_equal(grown[7 * MB], 'x');
    grown[15 * MB - 1] = 1;
    assert_int_equal(totals().live, 15 * MB);
    assert_int_equal(totals().cached, 0);
}

UNIT_TEST(too_far_or_aligned)
{
    start();
    SET_KNOB(huge_blocks_from, 0);
    hk_large_free(get(10 * MB, false));
    get(21 * MB, false);
    get(24 * MB / 10, false);
    bool zeroed;
    assert_non_null(hk_large_alloc(12 * MB, 2 * MB, &zeroed));
    assert_true(zeroed);
    assert_int_equal(totals().cached, 10 * MB);
}

UNIT_TEST(remap_refused)
{
    start();
    char *block = get(10 * MB, false);
    hk_large_free(block);
    fake_os_refuse(fake_refuse_remap);
    get(12 * MB, false);
    fake_os_refuse(NULL);
    assert_int_equal(totals().cached, 10 * MB);
    assert_int_equal(totals().live, 12 * MB);
    assert_ptr_equal(get(10 * MB, true), block);
}

UNIT_TEST(budget)
{
    SET_KNOB(large_cache, 10 * MB);
    start();
    char *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = get(4 * MB, false);
    uint64_t before = fake_os_calls(FAKE_UNMAP); /* not 0, because unaligned ends of new mappings are unmapped */
    for (int i = 0; i < 4; i++)
        hk_large_free(blocks[i]);
    assert_int_equal(totals().cached, 8 * MB);
    assert_int_equal(fake_os_calls(FAKE_UNMAP), before + 2);
    assert_int_equal(hk_page_map_lookup((uintptr_t)blocks[0]), 0); /* The two oldest blocks were unmapped. */
    assert_int_equal(hk_page_map_lookup((uintptr_t)blocks[1]), 0);
    assert_ptr_equal(get(4 * MB, true), blocks[3]);
    char *huge = get(11 * MB, false);
    hk_large_free(huge);
    assert_int_equal(totals().cached, 0);
}

UNIT_TEST(age)
{
    start();
    char *older = get(2 * MB, false), *newer = get(5 * MB, false);
    hk_large_free(older);
    fake_os_pass_ms(10000); /* During these 10 s, no thread checks the ages of cached blocks. */
    assert_int_equal(hk_large_purge(hk_os.clock_ms(), 500, SIZE_MAX), 0);
    fake_os_pass_ms(300);
    hk_large_free(newer);
    assert_int_equal(hk_large_purge(hk_os.clock_ms(), 500, SIZE_MAX), 0);
    fake_os_pass_ms(300);
    uint64_t now = hk_os.clock_ms();
    assert_int_equal(hk_large_purge(now, 700, SIZE_MAX), 0);
    assert_int_equal(hk_large_purge(now, 500, SIZE_MAX), 2 * MB);
    assert_int_equal(hk_large_purge(now, 500, SIZE_MAX), 0);
    assert_int_equal(hk_large_purge(now, 300, SIZE_MAX), 5 * MB);
    assert_int_equal(totals().cached, 0);
}

UNIT_TEST(unmap_refused)
{
    start();
    char *block = get(3 * MB, false);
    hk_large_free(block);
    fake_os_refuse(fake_refuse_unmap);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 0);
    assert_int_equal(totals().cached, 3 * MB);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 1); /* Because the unmap is refused, the block's pages are purged. */
    assert_true(hk_large_holds(block + MB));
    assert_ptr_equal(get(3 * MB, true), block);
    hk_large_free(block);
    fake_os_refuse(NULL);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 3 * MB);
}

UNIT_TEST(map_refused)
{
    start();
    bool zeroed;
    fake_os_refuse(fake_refuse_map);
    assert_null(hk_large_alloc(3 * MB, 16, &zeroed));
    assert_null(hk_large_alloc(3 * MB, 8 * MB, &zeroed));
    assert_int_equal(totals().live + totals().cached + totals().blocks, 0);
    assert_null(hk_large_alloc(SIZE_MAX - 100, 16, &zeroed));
    assert_null(hk_large_alloc(PTRDIFF_MAX, 16, &zeroed));
    fake_os_refuse(NULL);
    get(3 * MB, false);
}

UNIT_TEST(aligned)
{
    start();
    bool zeroed;
    for (size_t align = 16; align <= 64 * MB; align *= 4) {
        char *block = hk_large_alloc(100000, align, &zeroed);
        assert_int_equal((uintptr_t)block % align, 0);
        assert_true(hk_large_at((uintptr_t)block)->d.bytes >= 100000);
        block[99999] = 1;
        hk_large_free(block);
    }
}

static void fill(char *block, size_t size)
{
    for (size_t i = 0; i < size; i += 4096)
        block[i] = (char)(i / 4096 % 127);
}

static void assert_filled(const char *block, size_t size)
{
    for (size_t i = 0; i < size; i += 4096)
        assert_int_equal(block[i], (char)(i / 4096 % 127));
}

/* Growth moves pages instead of copying bytes. The data is intact at the new address, and the old address is free. */
UNIT_TEST(grows_by_remapping)
{
    start();
    char *block = get(2 * MB, false);
    fill(block, 2 * MB);
    for (size_t size = 3 * MB; size <= 40 * MB; size += size / 2) {
        char *moved = hk_large_resize(block, size);
        assert_non_null(moved);
        assert_filled(moved, 2 * MB);
        moved[size - 1] = 1;
        if (moved != block)
            assert_int_equal(hk_page_map_lookup((uintptr_t)block), 0);
        assert_int_equal(totals().live, (size + 4095) / 4096 * 4096);
        assert_int_equal(totals().blocks, 1);
        block = moved;
    }
    assert_ptr_equal(hk_large_resize(block, 2 * MB), block);
    assert_filled(block, 2 * MB);
    assert_int_equal(totals().live, 2 * MB);
    hk_large_free(block);
    assert_int_equal(totals().live, 0);
}

UNIT_TEST(growth_refused)
{
    start();
    char *block = get(2 * MB, false);
    fill(block, 2 * MB);
    fake_os_refuse(fake_refuse_remap);
    assert_null(hk_large_resize(block, 5 * MB));
    assert_null(hk_large_resize(block, MB / 4));
    assert_null(hk_large_resize(block, SIZE_MAX));
    fake_os_refuse(fake_refuse_all);
    assert_null(hk_large_resize(block, 5 * MB));
    fake_os_refuse(NULL);
    assert_filled(block, 2 * MB);
    assert_int_equal(totals().live, 2 * MB);
    assert_int_equal(totals().blocks, 1);
    hk_large_free(block);
}

static void zero(char *block, size_t size)
{
    assert_ptr_equal(hk_large_zero(block, size), block);
    for (size_t i = 0; i < size; i += 16)
        assert_true(hk_is_zero(block + i, 16));
}

static size_t resident(const char *block, size_t size)
{
    static unsigned char pages[16 * MB / 4096];
    size_t count = 0;
    assert_true(hk_os.resident(block, size, pages));
    for (size_t i = 0; i < size / hk_system_page(); i++)
        count += pages[i] & 1;
    return count * hk_system_page();
}

/* Pages that the program wrote since the previous zeroing are overwritten with zeros. All other pages are returned to the system. */
UNIT_TEST(zeroed)
{
    enum { SIZE = 12 * MB };
    start();
    char *block = get(SIZE, false);
    memset(block, 1, SIZE);
    zero(block, SIZE);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
    assert_int_equal(resident(block, SIZE), SIZE);
    block[100] = 1;
    hk_large_zero(block, SIZE);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 1);
    assert_int_equal(resident(block, SIZE), 0);
    memset(block, 1, 5 * MB);
    block[11 * MB] = 1;
    hk_large_zero(block, SIZE);
    assert_in_range(resident(block, SIZE), 5 * MB, 5 * MB + HK_SLICE); /* a fault may make a folio of 64 KiB resident */
    zero(block, SIZE);
    memset(block + 2 * MB, 1, SIZE - 2 * MB);
    hk_large_zero(block, SIZE);
    assert_true(resident(block, SIZE) >= 9 * MB);
    zero(block, SIZE);
    hk_large_free(block);
}

/* Zeroing changes no byte after the end of the block's own pages. */
UNIT_TEST(zeroed_but_for_the_slack)
{
    start();
    char *block = get(12 * MB, false);
    hk_large_free(block);
    assert_ptr_equal(get(9 * MB, true), block);
    block[9 * MB] = 1;
    zero(block, 9 * MB);
    assert_int_equal(block[9 * MB], 1);
    memset(block, 1, 9 * MB);
    zero(block, 9 * MB);
    assert_int_equal(block[9 * MB], 1);
    hk_large_free(block);
}

/* A block in a slab may begin and end in the middle of a page. */
UNIT_TEST(zeroed_in_a_slab)
{
    enum { EDGE = 112, SIZE = MB - 2 * EDGE };
    start();
    char *span = (char *)hk_span_alloc(MB / HK_SLICE, HK_USE_SPARSE, &(bool){false}), *block = span + EDGE;
    memset(span, 1, MB);
    zero(block, SIZE);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
    memset(block, 1, SIZE / 2);
    block[SIZE - 1] = 1;
    hk_large_zero(block, SIZE);
    assert_in_range(resident(span, MB), MB / 2, MB / 2 + 2 * HK_SLICE);
    assert_int_equal(block[-1], 1);
    assert_int_equal(block[SIZE], 1);
    zero(block, SIZE);
    hk_span_free((uintptr_t)span, MB / HK_SLICE);
}

/* Zeroing splits a huge page only if at least a quarter of the huge page can then be returned to the system. */
UNIT_TEST(zeroed_on_a_huge_page)
{
    start();
    char *span = (char *)hk_span_alloc(MB / HK_SLICE, HK_USE_SPARSE, &(bool){false});
    struct hk_chunk *chunk = hk_page_map_chunk((uintptr_t)span);
    hk_store(chunk->xhuge, true);
    memset(span, 1, MB);
    zero(span, MB);
    memset(span, 1, MB / 4 * 3);
    zero(span, MB);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
    assert_true(hk_load(chunk->xhuge));
    memset(span, 1, MB / 4);
    hk_large_zero(span, MB);
    assert_false(hk_load(chunk->xhuge));
    assert_int_equal(resident(span, MB), MB / 4);
    zero(span, MB);
    hk_span_free((uintptr_t)span, MB / HK_SLICE);
}

/* Tests zeroing if the system does not tell which pages are resident, and if the system refuses the purge. */
UNIT_TEST(zeroed_without_help)
{
    start();
    for (size_t size = 3 * MB; size <= 12 * MB; size *= 4) {
        char *block = get(size, false);
        fake_os_refuse(fake_refuse_resident);
        memset(block, 1, size);
        zero(block, size);
        block[size / 2] = 1;
        zero(block, size);
        fake_os_refuse(fake_refuse_purge);
        block[size / 3] = 1;
        zero(block, size);
        fake_os_refuse(fake_refuse_all);
        memset(block, 1, size);
        zero(block, size);
        fake_os_refuse(NULL);
        hk_large_free(block);
    }
}

static bool remap_nothing(void *p, size_t old_size, size_t new_size, void *to)
{
    (void)p, (void)old_size, (void)new_size, (void)to;
    return false;
}

static uint64_t maps_served; /* number of mappings that are still granted */
static bool refuse_later_maps(enum fake_call call, uint64_t ordinal)
{
    (void)ordinal;
    bool map = call == FAKE_MAP || call == FAKE_MAP_AT;
    if (map && maps_served > 0) {
        maps_served--;
        return false;
    }
    return map;
}

/* The mapping cannot grow in place, and a second mapping is refused. The pages then move to a place that the system chooses. */
UNIT_TEST(grows_without_room_beside)
{
    bool (*remap)(void *p, size_t old_size, size_t new_size, void *to) = hk_os.remap;
    start();
    char *block = get(2 * MB, false);
    fill(block, 2 * MB);
    hk_os.remap = remap_nothing;
    char *moved = hk_large_resize(block, 5 * MB / 2);
    assert_non_null(moved);
    assert_filled(moved, 2 * MB);
    moved[5 * MB / 2 - 1] = 1;
    assert_int_equal(totals().live, 5 * MB / 2);
    hk_large_note_modified((uintptr_t)moved, 4096);
    uint64_t maps = fake_os_calls(FAKE_MAP);
    block = hk_large_resize(moved, 3 * MB);
    assert_filled(block, 2 * MB);
    /* This call maps the table. No range is reserved for a modified block. */
    assert_int_equal(fake_os_calls(FAKE_MAP), maps + 1);
    fake_os_refuse(fake_refuse_map);
    assert_null(hk_large_resize(block, 7 * MB / 2));
    fake_os_refuse(fake_refuse_remap);
    assert_null(hk_large_resize(block, 7 * MB / 2));
    assert_ptr_equal(hk_large_resize(block, 3 * MB), block);
    fake_os_refuse(NULL);
    hk_os.remap = remap;
    assert_filled(block, 2 * MB);
    assert_int_equal(totals().live, 3 * MB);
    hk_large_free(block);
    assert_int_equal(totals().live + totals().cached, 0);
}

/* Returns an address below the stack that is far from the window, whose place is random. */
static uintptr_t far_place(void)
{
    uintptr_t near = hk_window_first() >> 40;
    return (uintptr_t)(near < 0x3e || near > 0x44 ? 0x41 : 0x50) << 40;
}

static void *move_far(void *p, size_t old_size, size_t new_size)
{
    void *q = mremap(p, old_size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)far_place());
    return q == MAP_FAILED ? NULL : q;
}

/* Returns a block of 2 MiB. The 64 MiB on each side of it have the same leaf of the page map, so that a test can tell how many maps a resize needs. */
static char *get_amid_leaf(void)
{
    char *block = get(2 * MB, false);
    while ((uintptr_t)block % HK_LEAF < 64 * MB || (uintptr_t)block % HK_LEAF > HK_LEAF - 64 * MB)
        block = get(2 * MB, false);
    return block;
}

/* The pages move to an address outside the window. The table for this address was mapped in advance. */
UNIT_TEST(grows_into_an_uncovered_place)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    char *block = get_amid_leaf();
    fill(block, 2 * MB);
    hk_os.remap = remap_nothing;
    hk_os.move = move_far;
    maps_served = 2; /* the range beside the block, and the table */
    fake_os_refuse(refuse_later_maps);
    block = hk_large_resize(block, 3 * MB);
    assert_int_equal((uintptr_t)block, far_place());
    assert_filled(block, 2 * MB);
    assert_true(hk_entry_is_large(hk_page_map_lookup(far_place())));
    hk_large_free(block);
}

/* Moves the block into the last 4 MiB of the first leaf of the window. The heap begins far below this address, so the window has page map entries
 * for this address, but no chunks. */
static void *move_into_window(void *p, size_t old_size, size_t new_size)
{
    char *end = (char *)hk_align_down(hk_window_first(), HK_LEAF) + HK_LEAF;
    void *q = mremap(p, old_size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, end - 4 * MB);
    return q == MAP_FAILED ? NULL : q;
}

static void grow(void *block) { (void)hk_large_resize(block, 3 * MB); }

/* The system moves the block to an address of the window at which the heap has no chunks, and refuses memory for chunks. The table that was
 * mapped in advance cannot be used, because the chunks of the window lie at fixed addresses. */
UNIT_TEST(has_no_table_for_a_moved_block)
{
    if (UNIT_UNDER_TSAN)
        return;
    start();
    char *block = get_amid_leaf();
    hk_os.remap = remap_nothing;
    hk_os.move = move_into_window;
    maps_served = 2; /* one range beside the block, and one table, which cannot serve as chunks */
    fake_os_refuse(refuse_later_maps);
    unit_dies(grow, block, "no memory for the table of a block that has moved");
}

static void *advised;
static bool note_advice(void *p, size_t size, bool wanted)
{
    if (wanted && size >= MB)
        advised = p;
    return true;
}

static void *huge_of(size_t size)
{
    advised = NULL;
    char *block = get(size, false);
    void *huge = advised;
    hk_large_free(block);
    hk_large_purge(0, 0, SIZE_MAX);
    assert_true(huge == NULL || huge == block);
    return huge;
}

/* Blocks of at least huge_blocks_from bytes are put on huge pages. The system gets this advice once for each block. */
UNIT_TEST(huge_pages)
{
    start();
    hk_os.advise_huge = note_advice;
    SET_KNOB(huge_blocks_from, 4 * MB);
    void *block = huge_of(8 * MB);
    assert_non_null(block);
    assert_true(on_huge_pages(block));
    assert_null(huge_of(3 * MB));
    SET_KNOB(huge_blocks_from, 1 * MB);
    assert_non_null(huge_of(3 * MB));
    SET_KNOB(huge_blocks_from, 0);
    assert_null(huge_of(9 * MB));
}

static void *alloc_large(size_t size)
{
    bool zeroed;
    advised = NULL;
    void *block = hk_large_alloc(size, HK_PAGE, &zeroed);
    assert_non_null(block);
    return block;
}

/* A large block may be a table that the program uses in only a few places. A few of these blocks are put on huge pages. More are put on huge
 * pages only if the heap is much larger than they are, or if the program repeatedly frees and allocates blocks of this size. */
UNIT_TEST(huge_pages_at_stake)
{
    enum { FEW = 8, PART_AT_STAKE = 4 };
    void *blocks[FEW];
    start();
    SET_KNOB(large_cache, 0);
    SET_KNOB(huge_blocks_from, 4 * MB);
    hk_os.advise_huge = note_advice;
    for (unsigned i = 0; i < FEW; i++) {
        blocks[i] = alloc_large(8 * MB);
        assert_non_null(advised);
    }
    void *last = alloc_large(8 * MB);
    assert_null(advised);
    for (unsigned i = 0; i < 2 * FEW * PART_AT_STAKE; i++)
        assert_int_not_equal(hk_span_alloc(HK_CHUNK_SLICES, HK_USE_DENSE, &(bool){false}), 0);
    hk_large_free(last);
    alloc_large(8 * MB);
    assert_non_null(advised);
    for (unsigned i = 0; i < 4; i++)
        hk_large_free(blocks[i]);
    for (unsigned i = 0; i < 4 * FEW; i++) {
        alloc_large(8 * MB);
        assert_non_null(advised);
    }
}

static void free_it(void *block) { hk_large_free(block); }
static void resize_it(void *block) { assert_null(hk_large_resize(block, 7 * MB)); }

UNIT_TEST(double_free)
{
    start();
    char *block = get(2 * MB, false);
    hk_large_free(block);
    unit_dies(free_it, block, "hakmem: free(): block already free: address 0x");
    unit_dies(resize_it, block, "hakmem: realloc(): block already free: address 0x");
    char *other = get(2 * MB, true);
    unit_dies(free_it, other + 4096, "hakmem: free(): pointer inside a block: address 0x");
}

/* The oldest cached blocks are purged first, if they are old enough, until the requested amount is reached. Slack is not purged because it is
 * likely to be used again. */
UNIT_TEST(oldest_first)
{
    char *blocks[4];
    start();
    for (size_t i = 0; i < 4; i++)
        blocks[i] = get((2 + i) * MB, false);
    char *shrunk = get(8 * MB, false);
    hk_large_resize(shrunk, 3 * MB);
    for (size_t i = 0; i < 4; i++) {
        fake_os_pass_ms(100);
        hk_large_free(blocks[i]);
        assert_int_equal(hk_large_purge(hk_os.clock_ms(), 1000, HK_GIB), 0);
    }
    uint64_t now = hk_os.clock_ms();
    assert_int_equal(hk_large_purge(now, 20, 2 * MB + 1), 5 * MB);
    assert_int_equal(hk_page_map_lookup((uintptr_t)blocks[0]), 0);
    assert_int_equal(hk_page_map_lookup((uintptr_t)blocks[1]), 0);
    assert_int_equal(hk_large_purge(now, 20, HK_GIB), 4 * MB);
    assert_int_equal(hk_large_purge(now + 19, 20, HK_GIB), 0);
    assert_int_equal(hk_large_purge(now + 20, 20, HK_GIB), 5 * MB);
    assert_int_equal(hk_large_purge(now + 1000, 20, HK_GIB), 0);
    assert_int_equal(totals().cached, 5 * MB);
    assert_int_equal(hk_large_purge(now + 1000, 20, SIZE_MAX), 5 * MB);
}

static bool (*remap)(void *p, size_t old_size, size_t new_size, void *to);
static bool remap_elsewhere(void *p, size_t old_size, size_t new_size, void *to)
{
    return to != NULL && remap(p, old_size, new_size, to);
}

static void expect_mapped(size_t bytes)
{
    assert_int_equal(hk_large_mapped(), bytes);
    assert_int_equal(totals().live + totals().cached, bytes);
}

UNIT_TEST(mapped)
{
    start();
    expect_mapped(0);
    char *block = get(3 * MB, false), *other = get(5 * MB, false);
    expect_mapped(8 * MB);
    block = hk_large_resize(block, 4 * MB);
    assert_non_null(block);
    expect_mapped(9 * MB);
    remap = hk_os.remap;
    hk_os.remap = remap_elsewhere;
    char *moved = hk_large_resize(block, 6 * MB);
    assert_true(moved != NULL && moved != block);
    expect_mapped(11 * MB);
    hk_os.remap = remap;
    assert_ptr_equal(hk_large_resize(moved, 2 * MB), moved); /* The rest becomes slack. */
    expect_mapped(11 * MB);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 4 * MB);
    expect_mapped(7 * MB);
    assert_ptr_equal(hk_large_resize(other, 1 * MB), other); /* The freed bytes are too many to be kept as slack. */
    expect_mapped(3 * MB);
    hk_large_free(moved);
    expect_mapped(3 * MB);
    bool zeroed;
    moved = hk_large_alloc(4 * MB, 16, &zeroed); /* This call reuses the freed block, and grows it. */
    assert_false(zeroed);
    expect_mapped(5 * MB);
    hk_large_free(moved);
    hk_large_free(other);
    expect_mapped(5 * MB);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 5 * MB);
    expect_mapped(0);
}

UNIT_TEST(mapped_if_refused)
{
    bool zeroed;
    start();
    char *block = get(3 * MB, false);
    hk_large_free(get(2 * MB, false));
    hk_large_resize(block, 1 * MB);
    fake_os_refuse(fake_refuse_all);
    assert_null(hk_large_alloc(8 * MB, 16, &zeroed));
    expect_mapped(5 * MB);
    assert_null(hk_large_resize(block, 8 * MB));
    expect_mapped(5 * MB);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 0); /* The system refuses to unmap the block and the slack. */
    expect_mapped(5 * MB);
    assert_int_equal(hk_large_purge(0, 0, HK_GIB), 0);
    expect_mapped(5 * MB);
    fake_os_refuse(NULL);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 4 * MB);
    expect_mapped(1 * MB);
}

/* A block that is kept warm is not purged by age before its time, but it can be reused. A purge of everything purges it too. */
UNIT_TEST(kept)
{
    start();
    SET_KNOB(purge_delay, 500);
    char *block = get(3 * MB, false);
    hk_large_keep(block, 2000);
    hk_large_free(get(8 * MB, false));
    hk_large_purge(1000, 500, SIZE_MAX);
    assert_int_equal(hk_large_purge(1999, 500, SIZE_MAX), 8 * MB);
    assert_int_equal(totals().cached, 3 * MB);
    assert_ptr_equal(get(3 * MB, true), block);
    hk_large_keep(block, 2000);
    assert_int_equal(hk_large_purge(2000, 500, SIZE_MAX), 3 * MB);
    hk_large_keep(get(3 * MB, false), UINT64_MAX / 2);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 3 * MB);
    assert_int_equal(totals().cached, 0);
}

UNIT_TEST(kept_within_the_budget)
{
    start();
    SET_KNOB(large_cache, 4 * MB);
    char *kept = get(3 * MB, false), *other = get(2 * MB, false), *third = get(4 * MB, false);
    hk_large_keep(kept, UINT64_MAX / 2);
    hk_large_free(other);
    assert_int_equal(totals().cached, 3 * MB);
    hk_large_keep(third, UINT64_MAX / 2);
    assert_int_equal(totals().cached, 4 * MB);
}

static void keep_for_long(void *block) { hk_large_keep(block, UINT64_MAX / 2); }

UNIT_TEST(kept_twice)
{
    start();
    char *block = get(3 * MB, false);
    hk_large_keep(block, UINT64_MAX / 2);
    unit_dies(keep_for_long, block, "hakmem: free(): block already free: address 0x");
}

UNIT_TEST(dropped)
{
    start();
    uint64_t before = fake_os_calls(FAKE_UNMAP);
    hk_large_drop(get(3 * MB, false));
    assert_int_equal(fake_os_calls(FAKE_UNMAP), before + 1);
    assert_int_equal(totals().cached, 0);
    assert_int_equal(totals().live, 0);
    assert_int_equal(totals().blocks, 0);
    char *block = get(3 * MB, false);
    fake_os_refuse(fake_refuse_unmap);
    hk_large_drop(block);
    fake_os_refuse(NULL);
    assert_int_equal(totals().cached, 3 * MB);
    get(3 * MB, true);
}

enum { OLD = 300 };

/* If there are many cached blocks, a request finds an old block by its size, in whatever order the blocks were freed. */
UNIT_TEST(many)
{
    start();
    SET_KNOB(large_cache, (uint64_t)1 << 40);
    char *blocks[OLD];
    for (unsigned i = 0; i < OLD; i++)
        blocks[i] = get(MB + i * 65536, false);
    for (unsigned i = 0; i < OLD; i++)
        hk_large_free(blocks[i]);
    for (unsigned i = 0; i < OLD; i++) {
        unsigned n = i * 7 % OLD;
        assert_ptr_equal(get(MB + n * 65536, true), blocks[n]);
        if (i % 3 == 0)
            hk_large_free(blocks[n]);
    }
    for (unsigned i = 0; i < OLD; i++)
        if (i % 3 != 0)
            hk_large_free(blocks[i * 7 % OLD]);
    assert_int_equal(totals().blocks, 0);
    size_t cached = totals().cached;
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), cached);
    assert_int_equal(totals().cached, 0);
}

static void note(char *p, size_t size) { hk_large_note_modified((uintptr_t)p, size); }

static uint64_t modified(void) { return hk_load(hk_global_counts[HK_GLOBAL_large_modified]); }

/* If the program changed the mapping of a block or of a part of it, the block is unmapped when it is freed. Other blocks are cached. */
UNIT_TEST(modified_blocks_go)
{
    start();
    char *blocks[4];
    for (unsigned i = 0; i < 4; i++)
        blocks[i] = get(3 * MB, false);
    note(blocks[0] + 3 * MB - 1, 1);
    note(blocks[2] + MB, 1);
    note(blocks[2] + MB, 0); /* A length of 0 changes no block. */
    note((char *)16, 4096);
    note((char *)(uintptr_t)-4096, SIZE_MAX);
    for (unsigned i = 0; i < 4; i++)
        hk_large_free(blocks[i]);
    assert_int_equal(modified(), 2);
    assert_int_equal(totals().cached, 6 * MB);
    assert_int_equal(hk_large_mapped(), 6 * MB);
    note((char *)HK_SLICE, SIZE_MAX); /* The noted range covers all blocks, also the cached ones. */
    get(3 * MB, false);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 6 * MB);
}

/* If a changed block has moved, the change must be noted at its new address, not at its old one. */
UNIT_TEST(modified_after_a_move)
{
    start();
    char *fence = get(2 * MB, false), *block = get(2 * MB, false), *moved = NULL;
    for (size_t size = 8 * MB; moved == NULL || moved == block; size *= 2)
        moved = hk_large_resize(block, size);
    note(moved + 6 * MB, 1);
    hk_large_free(fence);
    assert_int_equal(modified(), 0);
    hk_large_free(moved);
    assert_int_equal(modified(), 1);
}

/* Simulates a signal handler that changes a mapping while its thread holds the lock of large blocks. The handler cannot look up which block it
 * changed, so every block then counts as changed. */
UNIT_TEST(modified_under_the_lock)
{
    start();
    char *first = get(3 * MB, false), *second = get(4 * MB, false);
    hk_abandoned_fork_prepare();
    hk_locks_take_all();
    note(first, 1);
    hk_locks_drop_all();
    hk_large_free(second);
    hk_large_free(first);
    assert_int_equal(modified(), 2);
    assert_int_equal(totals().cached, 0);
    hk_large_free(get(3 * MB, false));
    assert_int_equal(modified(), 2);
}

UNIT_TEST(modified_and_not_unmapped)
{
    start();
    char *block = get(3 * MB, false), *kept = get(3 * MB, false);
    note(block, 1);
    note(kept, 1);
    fake_os_refuse(fake_refuse_unmap);
    hk_large_free(block);
    hk_large_keep(kept, hk_os.clock_ms() + 1000);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 2);
    assert_int_equal(totals().cached, 6 * MB);
    get(3 * MB, false);
    fake_os_refuse(NULL);
    assert_int_equal(hk_large_purge(0, 0, SIZE_MAX), 6 * MB);
}

/* A block that is freed while more is cached than the last tick allowed leaves the cache, unless excess stays. A kept block stays in any case. */
UNIT_TEST(excess)
{
    start();
    hk_store(hk_large_allowed, 3 * MB + MB / 2); /* 6 MB are in use, a quarter of which is allowed too */
    char *kept = get(6 * MB, false);
    hk_large_keep(kept, hk_os.clock_ms() + 1000);
    hk_large_hold_to_budget();
    assert_int_equal(totals().cached, 6 * MB);
    assert_ptr_equal(get(6 * MB, true), kept);
    char *one = get(4 * MB, false), *other = get(3 * MB, false), *third = get(4 * MB, false);
    hk_large_free(one);
    assert_int_equal(totals().cached, 4 * MB);
    hk_large_free(other);
    assert_int_equal(totals().cached, 3 * MB);
    SET_KNOB(purge_delay, HK_PATIENT_MS + 1);
    hk_large_free(third);
    assert_int_equal(totals().cached, 7 * MB);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purged_excess]), 4 * MB);
}

int main(void)
{
    hk_store(hk_large_allowed, HK_LARGE_NO_EXCESS); /* Only one test is about excess. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(excess),
        cmocka_unit_test(reuse),
        cmocka_unit_test(fit),
        cmocka_unit_test(spare),
        cmocka_unit_test(shrunk),
        cmocka_unit_test(spares_over_budget),
        cmocka_unit_test(grown_to_fit),
        cmocka_unit_test(too_far_or_aligned),
        cmocka_unit_test(remap_refused),
        cmocka_unit_test(budget),
        cmocka_unit_test(age),
        cmocka_unit_test(unmap_refused),
        cmocka_unit_test(map_refused),
        cmocka_unit_test(aligned),
        cmocka_unit_test(grows_by_remapping),
        cmocka_unit_test(growth_refused),
        cmocka_unit_test(grows_without_room_beside),
        cmocka_unit_test(grows_into_an_uncovered_place),
        cmocka_unit_test(has_no_table_for_a_moved_block),
        cmocka_unit_test(huge_pages),
        cmocka_unit_test(huge_pages_at_stake),
        cmocka_unit_test(little_used),
        cmocka_unit_test(little_used_then_many_used),
        cmocka_unit_test(little_used_and_protected),
        cmocka_unit_test(whole_huge_pages),
        cmocka_unit_test(maps_where_vacant),
        cmocka_unit_test(zeroed),
        cmocka_unit_test(zeroed_but_for_the_slack),
        cmocka_unit_test(zeroed_in_a_slab),
        cmocka_unit_test(zeroed_on_a_huge_page),
        cmocka_unit_test(zeroed_without_help),
        cmocka_unit_test(no_whole_huge_pages),
        cmocka_unit_test(oldest_first),
        cmocka_unit_test(mapped),
        cmocka_unit_test(mapped_if_refused),
        cmocka_unit_test(double_free),
        cmocka_unit_test(kept),
        cmocka_unit_test(kept_within_the_budget),
        cmocka_unit_test(kept_twice),
        cmocka_unit_test(dropped),
        cmocka_unit_test(many),
        cmocka_unit_test(modified_blocks_go),
        cmocka_unit_test(modified_after_a_move),
        cmocka_unit_test(modified_under_the_lock),
        cmocka_unit_test(modified_and_not_unmapped),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
