/* Holds the two records that stand in for the cache of a thread that has none. Also opens and shuts the gate of the hit path. */
#include "tcache/layout.h"

struct hk_gate hk_gate HK_EACH_PROCESS_DATA;

static void *no_items[1];

void hk_bin_reset(struct hk_bin *bin) { bin->top = bin->limit = bin->base = no_items; }

/* If `sizes_to` is 0, the gate stays shut, and every call is a miss. */
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

struct hk_cacheless hk_thread_unborn, hk_thread_ended HK_COLD_DATA;

_Thread_local struct hk_thread_state *hk_self = &hk_thread_unborn.hot;

/* Initializes a record at run time, because static initializers for its pointers would need 240 relocations, which take 8 KiB of the library file. */
void hk_cacheless_shut(struct hk_cacheless *cacheless)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&cacheless->hot.bins[class]);
    cacheless->hot.key = HK_NO_KEY;
    hk_outbox_shut(&cacheless->outbox);
    if (hk_gate.fine_offsets != NULL)
        return; /* an earlier call has set the fields below, which must not change while the gate is open */
    hk_gate.self = hk_window.self = (uintptr_t)&hk_self - HK_THREAD_POINTER();
    hk_gate.fine_offsets = hk_fine_offsets;
}
