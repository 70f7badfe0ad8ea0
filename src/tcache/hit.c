#include "tcache/hit.h"

#include "base/bits.h"

struct hk_gate hk_gate;

static void *no_items[1];

void hk_bin_reset(struct hk_bin *bin) { bin->top = bin->limit = bin->base = no_items; }

/* A `sizes_to` of 0 leaves the gate shut, as before the start: every call is a miss. */
void hk_gate_open(size_t sizes_to)
{
    if (sizes_to == HK_ALL_HIT) {
        hk_window_open();
        __atomic_store_n(&hk_gate.coarse_sizes, HK_LARGE_MAX - HK_FINE_MAX, __ATOMIC_RELEASE);
    }
    if (sizes_to > 0)
        __atomic_store_n(&hk_gate.sizes_below, hk_min(sizes_to, HK_FINE_MAX) + 1, __ATOMIC_RELEASE);
}
