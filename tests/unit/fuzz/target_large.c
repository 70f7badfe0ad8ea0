/* Tests large blocks: the choice among cached blocks, the tree of mappings, and the blocks themselves. */
#include "base/bits.h"
#include "large/large.h"
#include "large/large_cache.h"
#include "large/large_state.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/shadow.h"
#include "runtime/lifecycle.h"
#include "support/knobs.h"
#include "support/pattern.h"
#include "unit/fake_os.h"
#include "unit/invariants.h"

enum { RECORDS = 48, LIVE = 24 };
static struct hk_large_block records[RECORDS];
static bool inside[RECORDS];

static size_t draw_bytes(struct fuzz_input *in)
{
    uint8_t shape = fuzz_byte(in);
    return ((size_t)(16 + shape % 8) << (12 + shape / 8 % 9)) +
           (shape >= 128 ? fuzz_byte(in) % 64 * (size_t)HK_PAGE : 0);
}

/* The search must find the nearest block that can serve the request. It looks at every block because there are so few. */
void fuzz_fit(struct fuzz_input *in)
{
    static struct hk_fit fit;
    memset(&fit, 0, sizeof fit);
    memset(inside, 0, sizeof inside);
    for (size_t count = 0; fuzz_next(in);) {
        unsigned n = (unsigned)fuzz_below(in, RECORDS);
        if (inside[n])
            hk_fit_remove(&fit, &records[n]);
        else
            records[n] =
                (struct hk_large_block){.d = {.bytes = draw_bytes(in), .start = fuzz_byte(in) % 64 * HK_SLICE}};
        if (!inside[n])
            hk_fit_add(&fit, &records[n]);
        inside[n] = !inside[n];
        count = inside[n] ? count + 1 : count - 1;
        size_t bytes = draw_bytes(in);
        struct hk_want want =
            hk_want_for(bytes, bytes * (1 + fuzz_byte(in) % 4u), (size_t)HK_PAGE << fuzz_byte(in) % 6);
        const struct hk_large_block *best = hk_fit_nearest(&fit, &want, NULL), *right = NULL;
        for (unsigned i = 0; i < RECORDS; i++)
            if (inside[i] && hk_fit_serves(&records[i], &want) &&
                (right == NULL || hk_fit_distance(&records[i], bytes) < hk_fit_distance(right, bytes)))
                right = &records[i];
        FUZZ_CHECK((best != NULL) == (right != NULL) && fit.count == count);
        FUZZ_CHECK(best == NULL ||
                   (hk_fit_serves(best, &want) && hk_fit_distance(best, bytes) == hk_fit_distance(right, bytes)));
    }
    for (unsigned i = 0; i < RECORDS; i++)
        if (inside[i])
            hk_fit_remove(&fit, &records[i]);
}

void fuzz_extents(struct fuzz_input *in)
{
    struct hk_large_block *others = hk_large.extents;
    hk_large.extents = NULL;
    memset(inside, 0, sizeof inside);
    for (unsigned i = 0; i < RECORDS; i++)
        records[i] = (struct hk_large_block){.d = {.start = (i * 7 % RECORDS + 1) * HK_CHUNK, .bytes = HK_MIB}};
    while (fuzz_next(in)) {
        unsigned n = (unsigned)fuzz_below(in, RECORDS);
        uintptr_t end = fuzz_below(in, 65536) * (HK_SLICE / 16) + fuzz_byte(in) % 3;
        (inside[n] ? hk_extents_remove : hk_extents_add)(&records[n]);
        inside[n] = !inside[n];
        const struct hk_large_block *right = NULL;
        for (unsigned i = 0; i < RECORDS; i++)
            if (inside[i] && records[i].d.start < end && (right == NULL || records[i].d.start > right->d.start))
                right = &records[i];
        FUZZ_CHECK(hk_extents_nearest(end, HK_LOWER) == right, "(%lx)", (unsigned long)end);
    }
    hk_large.extents = others;
}

static struct large_model {
    char *p;
    size_t size;
    uint64_t seed;
} larges[LIVE];

/* Writes a word on some pages of the block, and writes the block's last bytes. */
static void fill_large(const struct large_model *large)
{
    for (size_t at = 0; at + 8 <= large->size; at += 64 * HK_PAGE)
        pattern_fill_range(large->p, at, at + 8, large->seed);
    pattern_fill_range(large->p, large->size - 8, large->size, large->seed);
}

static void check_large(const struct large_model *large, size_t size)
{
    for (size_t at = 0; at + 8 <= size; at += 64 * HK_PAGE) {
        uint64_t word, right = pattern_word(large->seed, at / 8);
        memcpy(&word, large->p + at, 8);
        FUZZ_CHECK(word == right, "(byte %zu of %zu)", at, large->size);
    }
    for (size_t at = large->size - 8; size == large->size && at < size; at++)
        FUZZ_CHECK((unsigned char)large->p[at] == pattern_byte(large->seed, at));
}

static void get_large(struct large_model *large, size_t size, size_t align)
{
    static uint64_t seed;
    bool zeroed;
    char *p = hk_large_alloc(size, align, &zeroed);
    FUZZ_CHECK(p != NULL || fake_os.refuse != NULL);
    if (p == NULL)
        return;
    *large = (struct large_model){p, size, ++seed};
    FUZZ_CHECK((uintptr_t)p % hk_max(align, HK_PAGE) == 0 && shadow_enter(p, size));
    for (size_t at = 0; zeroed && at + 64 <= size; at += 16 * HK_PAGE)
        FUZZ_CHECK(all_zero(p + at, 64));
    FUZZ_CHECK(hk_large_holds(p) && hk_large_holds(p + size - 1) && hk_large_at((uintptr_t)p)->requested >= size);
    fill_large(large);
}

static void put_large(struct large_model *large, uint8_t way)
{
    check_large(large, large->size);
    FUZZ_CHECK(shadow_leave(large->p, large->size));
    switch (way % 4) {
    case 0: hk_large_keep(large->p, hk_os.clock_ms() + way * 8u); break;
    case 1: hk_large_drop(large->p); break;
    default: hk_large_free(large->p); break;
    }
    large->p = NULL;
}

static void resize_large(struct large_model *large, size_t size)
{
    check_large(large, large->size);
    FUZZ_CHECK(shadow_leave(large->p, large->size));
    char *p = hk_large_resize(large->p, size);
    if (p != NULL) {
        large->p = p;
        check_large(large, hk_min(large->size, size));
        large->size = size;
        fill_large(large);
    }
    check_large(large, large->size);
    FUZZ_CHECK(shadow_enter(large->p, large->size));
}

void fuzz_large(struct fuzz_input *in)
{
    static struct hk_heap_stats heap_stats;
    static fake_refuse *const plans[] = {
        NULL, NULL, fake_refuse_map, fake_refuse_unmap, fake_refuse_purge, fake_refuse_remap, fake_refuse_all};
    FUZZ_CHECK(hk_tcache_get() != NULL);
    shadow_begin();
    SET_KNOB(large_cache, (uint64_t)fuzz_byte(in) << 20);
    SET_KNOB(huge_blocks_from, fuzz_byte(in) % 2 == 0 ? 0 : 2 * HK_MIB);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        struct large_model *large = &larges[fuzz_byte(in) % LIVE];
        size_t size = HK_SLICE + 1 + fuzz_below(in, 65536) * 128;
        if (op >= 250)
            fake_os_refuse(plans[fuzz_below(in, 7)]);
        else if (op >= 240)
            hk_large_purge(hk_os.clock_ms(), op % 2 == 0 ? 0 : 500, SIZE_MAX);
        else if (op >= 232)
            hk_large_purge(hk_os.clock_ms(), op % 2 * 100, size);
        else if (op >= 216)
            fake_os_pass_ms(op * 2u);
        else if (large->p == NULL)
            get_large(large, size, op % 8 == 0 ? HK_SLICE << op % 7 : 16);
        else if (op >= 200)
            hk_large_note_modified((uintptr_t)large->p + size % large->size / HK_PAGE * HK_PAGE, HK_PAGE);
        else
            op % 2 == 0 ? resize_large(large, size) : put_large(large, op / 2);
    }
    fake_os_refuse(NULL);
    size_t live = 0;
    for (unsigned i = 0; i < LIVE; i++)
        live += larges[i].p != NULL;
    const char *wrong = heap_is_wrong(&heap_stats);
    FUZZ_CHECK(wrong == NULL && heap_stats.tiers[HK_TIER_LARGE].live_blocks == live, "(%s)", wrong);
    for (unsigned i = 0; i < LIVE; i++)
        if (larges[i].p != NULL)
            put_large(&larges[i], 2);
    for (unsigned i = 0; i < 3; i++)
        hk_large_purge(hk_os.clock_ms(), 0, SIZE_MAX);
    FUZZ_CHECK(hk_large_mapped() == 0, "(%zu bytes)", hk_large_mapped());
}
