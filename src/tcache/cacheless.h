/* Cacheless: the hot part and the outbox of a thread without a cache. hk_self points to one of two such pairs, so that the hit path
 * needs no test for a missing cache.
 *
 *   hk_thread_unborn --hk_tcache_begin--> the hot part of a cache --hk_tcache_end--> hk_thread_ended
 *
 * Owns       hk_self, and both pairs.
 * Invariant  their bins are empty, their key matches no entry, and their outbox refuses every block: all calls of the thread miss.
 * Threads    any; constant after hk_cacheless_shut(). */
#ifndef HK_CACHELESS_H
#define HK_CACHELESS_H

#include "heaps/heaps.h"
#include "slab/outbox.h"
#include "tcache/hit.h"

/* The outbox follows the hot part, as in struct hk_tcache. */
struct hk_cacheless {
    struct hk_thread_state hot HK_ALIGNED(HK_THREAD_STATE_ALIGN);
    struct hk_outbox outbox;
    struct hk_heap_shelf shelf; /* empty */
};

extern struct hk_cacheless hk_thread_unborn, hk_thread_ended;

/* Establishes the invariant. At the start for hk_thread_unborn, before the gate opens; at the first end for hk_thread_ended. */
void hk_cacheless_shut(struct hk_cacheless *cacheless);

/* The outbox beside a hot part, with or without a cache. */
HK_INLINE struct hk_outbox *hk_outbox_beside(struct hk_thread_state *hot)
{
    return (struct hk_outbox *)(void *)((char *)hot + offsetof(struct hk_cacheless, outbox));
}

/* The shelf likewise. */
HK_INLINE struct hk_heap_shelf *hk_shelf_beside(struct hk_thread_state *hot)
{
    return (struct hk_heap_shelf *)(void *)((char *)hot + offsetof(struct hk_cacheless, shelf));
}

#endif
