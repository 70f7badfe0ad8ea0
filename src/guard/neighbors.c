/* Checks the free blocks and the canary beside a block that is freed. */
#include "guard/neighbors.h"

#include "base/bits.h"
#include "guard/canary.h"
#include "guard/states.h"
#include "os/os.h"
#include "slab/slab.h"

enum { READINGS = 3 };

/* A fault is certain if the bytes differ while their block is free, at several readings: else another thread is giving it out. */
static bool was_written(hk_state_byte *state, const char *at, size_t bytes)
{
    for (unsigned i = 0; i < READINGS; i++) {
        uint8_t before = hk_load_acquire(*state);
        bool zero = hk_is_zero(at, bytes);
        HK_FENCE(memory_order_acquire);
        if (zero || (before & ~HK_STATE_FREE) != 0 || hk_load(*state) != before)
            return false;
    }
    return true;
}

static bool canary_is_broken(hk_state_byte *state, const char *end, size_t bytes)
{
    for (unsigned i = 0; i < READINGS; i++) {
        uint8_t before = hk_load_acquire(*state);
        bool whole = hk_canary_slack(end, bytes) != HK_CANARY_BROKEN;
        HK_FENCE(memory_order_acquire);
        if (whole || (before & HK_STATE_LIVE) == 0 || hk_load(*state) != before)
            return false;
    }
    return true;
}

static bool is_free(uint8_t state) { return (state & ~HK_STATE_FREE) == 0; }

static void check_before(enum hk_call call, const char *block, const char *end, size_t size, hk_state_byte *state)
{
    uint8_t now = hk_load_acquire(*state);
    size_t span = hk_min(size, HK_NEIGHBORHOOD);
    bool broken = (now & HK_STATE_LIVE) != 0 && HK_GUARDS(canary) && hk_canary_slack(end, size) == HK_CANARY_BROKEN &&
                  canary_is_broken(state, end, size);
    bool written =
        is_free(now) && HK_GUARDS(zero) && !hk_is_zero(end - span, span) && was_written(state, end - span, span);
    if (HK_UNLIKELY(broken || written))
        hk_guard_fault(call, HK_TEXT_written_before, block);
}

static void check_behind(enum hk_call call, const char *block, const char *next, size_t size, hk_state_byte *state)
{
    size_t span = hk_min(size, HK_NEIGHBORHOOD);
    if (is_free(hk_load_acquire(*state)) && HK_GUARDS(zero) && HK_UNLIKELY(!hk_is_zero(next, span)) &&
        was_written(state, next, span))
        hk_guard_fault(call, HK_TEXT_written_behind, block);
}

/* Blocks of 16 bytes have two neighbors in 32 bytes. */
static HK_NOINLINE void check_near_edge(enum hk_call call, const char *block, size_t size)
{
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    if (slab->d.class >= HK_CLASSES || slab->mixed)
        return;
    size_t offset = (uintptr_t)block - slab->d.start, within = hk_max(size, HK_NEIGHBORHOOD);
    for (size_t d = size; d <= within && d <= offset; d += size)
        check_before(call, block, block - d + size, size, hk_state_at((uintptr_t)block - d));
    for (size_t d = size; d <= within && offset + d + size <= slab->extent; d += size)
        check_behind(call, block, block + d, size, hk_state_at((uintptr_t)block + d));
}

void hk_neighbors_check(enum hk_call call, const char *block, size_t size, hk_state_byte *state)
{
    size_t place = (uintptr_t)block % HK_SLICE, within = hk_max(size, HK_NEIGHBORHOOD);
    if (HK_UNLIKELY(place < within) || HK_UNLIKELY(place + within + size > HK_SLICE - hk_system_page())) {
        check_near_edge(call, block, size);
        return;
    }
    for (size_t d = size; d <= within; d += size) {
        check_before(call, block, block - d + size, size, state - (d >> HK_STATE_SHIFT));
        check_behind(call, block, block + d, size, state + (d >> HK_STATE_SHIFT));
    }
}
