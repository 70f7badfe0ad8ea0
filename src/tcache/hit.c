#include "tcache/hit.h"

#include "base/bits.h"

struct hk_hot hk_hot_unborn, hk_hot_ended HK_COLD_DATA;
struct hk_gate hk_gate;

static void *no_items[1];

void hk_bin_reset(struct hk_bin *bin) { bin->top = bin->limit = bin->base = no_items; }

/* At the start, not by initializers: relocations of 240 pointers take 8 KiB of the file. No call reads the bins before
 * the gate opens. */
void hk_hot_shut(struct hk_hot *hot)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&hot->bins[class]);
    hot->key = HK_NO_KEY;
    hk_outbox_shut(&hot->outbox);
}

/* A `sizes_to` of 0 leaves the gate shut, as before the start: every call is a miss. */
void hk_gate_open(size_t sizes_to)
{
    hk_hot_shut(&hk_hot_unborn);
    if (sizes_to == HK_ALL_HIT) {
        hk_window_open();
        __atomic_store_n(&hk_gate.coarse_sizes, HK_LARGE_MAX - HK_FINE_MAX, __ATOMIC_RELEASE);
    }
    if (sizes_to > 0)
        __atomic_store_n(&hk_gate.sizes_below, hk_min(sizes_to, HK_FINE_MAX) + 1, __ATOMIC_RELEASE);
}

_Thread_local struct hk_hot *hk_self = &hk_hot_unborn;
