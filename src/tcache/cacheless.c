/* Defines the records that stand for the cache of a thread that has none. */
#include "tcache/cacheless.h"

struct hk_cacheless hk_thread_unborn, hk_thread_ended HK_COLD_DATA;

_Thread_local struct hk_thread_state *hk_self = &hk_thread_unborn.hot;

/* Before the gate opens. */
static void show_self(void)
{
    if (hk_gate.fine_offsets != NULL)
        return;
    hk_gate.self = hk_window.self = (uintptr_t)&hk_self - HK_THREAD_POINTER();
    hk_gate.fine_offsets = hk_fine_offsets;
}

/* By a call, not by initializers: relocations of 240 pointers take 8 KiB of the file. */
void hk_cacheless_shut(struct hk_cacheless *cacheless)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&cacheless->hot.bins[class]);
    cacheless->hot.key = HK_NO_KEY;
    hk_outbox_shut(&cacheless->outbox);
    show_self();
}
