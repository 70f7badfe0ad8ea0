/* Tests the page heap. Spans must not overlap, and must keep their contents. The page heap's sums must be right. A purge must purge exactly the
 * slices that have been free for the delay. */
#include "base/bits.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/shadow.h"
#include "policy/policy.h"
#include "span/chunks.h"
#include "span/footprint.h"
#include "span/page_heap.h"
#include "support/knobs.h"
#include "support/pattern.h"
#include "unit/fake_os.h"

enum { SPANS = 256 };

static struct span {
    uintptr_t at; /* 0: the slot is empty */
    size_t slices;
    uint64_t seed;
} spans[SPANS];
static size_t used_slices;

static void begin_page_heap(void)
{
    fake_os_refuse(NULL);
    shadow_begin();
    FUZZ_CHECK(hk_page_map_init());
    hk_thp_look();
    hk_page_heap_init();
}

static void fill_slices(const struct span *span, size_t from)
{
    for (size_t i = from; i < span->slices; i++) {
        pattern_fill((char *)span->at + i * HK_SLICE, 64, span->seed + i);
        pattern_fill((char *)span->at + (i + 1) * HK_SLICE - 64, 64, span->seed + i);
    }
}

static void check_span(const struct span *span)
{
    for (size_t i = 0; i < span->slices; i++) {
        FUZZ_CHECK(pattern_holds((char *)span->at + i * HK_SLICE, 64, span->seed + i) &&
                       pattern_holds((char *)span->at + (i + 1) * HK_SLICE - 64, 64, span->seed + i),
                   "(slice %zu of %lx)", i, (unsigned long)span->at);
        FUZZ_CHECK(hk_page_heap_slice(span->at + i * HK_SLICE) == HK_SLICE_USED);
    }
}

static void get_span(struct span *span, size_t slices, enum hk_use use)
{
    struct hk_page_heap_totals before = hk_page_heap_total();
    uintptr_t at = hk_span_alloc(slices, use, &(bool){false});
    FUZZ_CHECK(at != 0 || fake_os.refuse != NULL || hk_options.limit != 0);
    if (at == 0)
        return;
    *span = (struct span){at, slices, at};
    FUZZ_CHECK(at % HK_SLICE == 0 && at / HK_CHUNK == (at + slices * HK_SLICE - 1) / HK_CHUNK &&
               shadow_enter((void *)at, slices * HK_SLICE));
    for (size_t i = 0; before.free_dirty == 0 && i < slices; i++)
        FUZZ_CHECK(all_zero((char *)at + i * HK_SLICE, 128));
    fill_slices(span, 0);
    used_slices += slices;
}

static void put_span(struct span *span, size_t hollow)
{
    check_span(span);
    FUZZ_CHECK(shadow_leave((void *)span->at, span->slices * HK_SLICE));
    if (hollow != 0)
        FUZZ_CHECK(hk_os.purge((void *)span->at, span->slices * HK_SLICE) || fake_os.refuse != NULL);
    if (hollow != 0 && fake_os.refuse == NULL)
        hk_span_free_hollow(span->at, span->slices, span->slices * HK_SLICE);
    else
        hk_span_free(span->at, span->slices);
    used_slices -= span->slices;
    span->at = 0;
}

static void extend_span(struct span *span, size_t more)
{
    if (!hk_span_extend(span->at, span->slices, more))
        return;
    FUZZ_CHECK(shadow_enter((void *)(span->at + span->slices * HK_SLICE), more * HK_SLICE));
    span->slices += more;
    fill_slices(span, span->slices - more);
    used_slices += more;
}

static void check_sums(void)
{
    struct hk_page_heap_totals totals = hk_page_heap_total();
    FUZZ_CHECK(totals.mapped - totals.free_dirty - totals.free_clean == used_slices * HK_SLICE);
    FUZZ_CHECK(hk_load(hk_footprint.xslices) == totals.mapped - totals.free_clean);
    FUZZ_CHECK(hk_options.limit == 0 || hk_footprint_bytes() <= hk_options.limit);
}

void fuzz_page_heap(struct fuzz_input *in)
{
    static fake_refuse *const plans[] = {
        NULL, NULL, fake_refuse_mappings, fake_refuse_purge, fake_refuse_unmap, fake_refuse_all};
    static const uint64_t limits[] = {0, 0, 0, 2 * HK_MIB, 5 * HK_MIB, 64 * HK_MIB};
    begin_page_heap();
    hk_options.limit = limits[fuzz_below(in, 6)];
    SET_KNOB(huge_pages_from, fuzz_byte(in) % 2 == 0 ? 0 : 4 * HK_MIB);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        struct span *span = &spans[fuzz_byte(in)];
        if (op >= 254)
            fake_os_refuse(plans[fuzz_below(in, 6)]);
        else if (op >= 251)
            op == 253   ? (void)hk_page_heap_purge(0, 0, SIZE_MAX, true)
            : op == 252 ? (void)hk_page_heap_purge(0, 0, fuzz_byte(in) * HK_SLICE, true)
                        : (void)hk_page_heap_unmap(true);
        else if (op >= 248)
            fake_os_pass_ms(fuzz_byte(in) * 8u);
        else if (span->at == 0)
            get_span(span, 1 + (size_t)fuzz_byte(in) % (op % 4 == 0 ? 32 : 6), (enum hk_use)(op % 3));
        else if (op % 8 == 0)
            extend_span(span, 1 + (size_t)fuzz_byte(in) % 8);
        else
            put_span(span, op % 16 == 1);
        check_sums();
    }
    fake_os_refuse(NULL);
    for (unsigned i = 0; i < SPANS; i++)
        if (spans[i].at != 0)
            put_span(&spans[i], 0);
    hk_page_heap_purge(0, 0, SIZE_MAX, true);
    check_sums();
    FUZZ_CHECK(hk_page_heap_dirty() == 0);
}

/* The model of the purge queue has SLICES entries, which note for each address when the slice became free. */
enum { SLICES = 1 << 12 };
static struct freed_slice {
    uintptr_t address;
    uint64_t freed_ms; /* UINT64_MAX if the slice is in use or clean */
} freed[SLICES];
static uint64_t purge_delay_now, purged_now;

static struct freed_slice *freed_at(uintptr_t address)
{
    size_t at = (address >> HK_SLICE_SHIFT) * 0x9e3779b1 % SLICES;
    while (freed[at].address != 0 && freed[at].address != address)
        at = (at + 1) % SLICES;
    if (freed[at].address == 0)
        freed[at] = (struct freed_slice){address, UINT64_MAX};
    return &freed[at];
}

/* Replaces the system's purge. It accepts only slices that have been free and dirty for the delay. */
static bool watched_purge(void *p, size_t size)
{
    uint64_t now = hk_os.clock_ms();
    for (uintptr_t at = (uintptr_t)p; at < (uintptr_t)p + size; at += HK_SLICE) {
        struct freed_slice *slice = freed_at(at);
        FUZZ_CHECK(slice->freed_ms != UINT64_MAX, "(%lx is in use, or clean)", (unsigned long)at);
        FUZZ_CHECK(purge_delay_now == 0 || slice->freed_ms + purge_delay_now <= now, "(free for %lu ms)",
                   (unsigned long)(now - slice->freed_ms));
        slice->freed_ms = UINT64_MAX;
    }
    purged_now += size;
    return true;
}

static size_t waiting_since(uint64_t ms)
{
    size_t slices = 0;
    for (size_t i = 0; i < SLICES; i++)
        slices += freed[i].address != 0 && freed[i].freed_ms <= ms;
    return slices;
}

static void note_span(const struct span *span, uint64_t ms)
{
    for (size_t i = 0; i < span->slices; i++)
        freed_at(span->at + i * HK_SLICE)->freed_ms = ms;
}

static void purge_once(uint64_t delay, size_t enough)
{
    struct hk_page_heap_totals before = hk_page_heap_total();
    purged_now = 0;
    purge_delay_now = enough == 0 ? delay : 0;
    size_t bytes = hk_page_heap_purge(hk_os.clock_ms(), delay, enough == 0 ? SIZE_MAX : enough, false);
    struct hk_page_heap_totals after = hk_page_heap_total();
    FUZZ_CHECK(bytes == purged_now && before.free_dirty - after.free_dirty == bytes &&
               after.free_dirty == waiting_since(UINT64_MAX - 1) * HK_SLICE);
    FUZZ_CHECK(enough == 0 || bytes < enough + HK_CHUNK);
    FUZZ_CHECK(delay != 0 || after.free_dirty == 0 || (enough != 0 && bytes >= enough));
}

/* Calls the purge three times, with the delay in between. Slices that were free before the first call must be purged after the last. */
static void look_three_times(uint64_t delay)
{
    uint64_t before = hk_os.clock_ms();
    for (unsigned i = 0; i < 3; i++) {
        fake_os_pass_ms(delay);
        purge_once(delay, 0);
    }
    FUZZ_CHECK(waiting_since(before) == 0, "(%zu slices wait)", waiting_since(before));
}

void fuzz_purge(struct fuzz_input *in)
{
    begin_page_heap();
    SET_KNOB(huge_pages_from, 0);
    hk_os.purge = watched_purge;
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        struct span *span = &spans[fuzz_byte(in) % 64];
        uint64_t delay = 64 * (uint64_t)(op % 8);
        if (op >= 250)
            look_three_times(delay + 1);
        else if (op >= 236)
            purge_once(delay, op % 2 == 0 ? 0 : (1 + (size_t)op) * HK_SLICE);
        else if (op >= 200)
            fake_os_pass_ms(op);
        else if (span->at == 0) {
            uintptr_t at = hk_span_alloc(1 + (size_t)op % 32, HK_USE_SPARSE, &(bool){false});
            *span = (struct span){at, 1 + (size_t)op % 32, 0};
            FUZZ_CHECK(at != 0);
            note_span(span, UINT64_MAX);
        } else {
            hk_span_free(span->at, span->slices);
            note_span(span, hk_os.clock_ms());
            span->at = 0;
        }
    }
}
