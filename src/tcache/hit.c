/* Opens and shuts the gates of the hit path. */
#include "tcache/hit.h"

#include "base/bits.h"
#include "span/page_heap.h"

struct hk_gate hk_gate HK_EACH_PROCESS_DATA;

static void *no_items[1];

void hk_bin_reset(struct hk_bin *bin) { bin->top = bin->limit = bin->base = no_items; }

/* A `sizes_to` of 0 leaves the gate shut, as before the start: every call is a miss. */
void hk_gate_open(size_t sizes_to)
{
    hk_window_open(sizes_to == HK_ALL_HIT);
    if (sizes_to == HK_ALL_HIT)
        hk_gate_set(true, true);
    else if (sizes_to > 0)
        __atomic_store_n(&hk_gate.sizes_below, hk_min(sizes_to, HK_FINE_MAX) + 1, __ATOMIC_RELEASE);
}

void hk_gate_set(bool fine, bool coarse)
{
    __atomic_store_n(&hk_gate.coarse_sizes, coarse ? HK_MEDIUM_MAX - HK_FINE_MAX : 0, __ATOMIC_RELEASE);
    if (fine)
        hk_mode_set(HK_MODE_OPEN);
    else
        hk_mode_clear(HK_MODE_OPEN);
    __atomic_store_n(&hk_gate.sizes_below, fine ? HK_FINE_MAX + 1 : 0, __ATOMIC_RELEASE);
}
