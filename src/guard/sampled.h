/* Sampled: one allocation in so many bytes lies against a guard page (HAKMEM_GUARD_SAMPLE): an access beside it, or after its free,
 * faults.
 *
 *   tick of a miss: countdown ran out --> the allocation fails in the tcache --> hk_sampled_alloc: slot, stack --> the program
 *   free: outside the page map --> hk_sampled_has: one compare --> hk_sampled_free: stack, the slot becomes inaccessible
 *
 * Owns       no state: sampled_slots.h holds it.
 * Invariant  off, it costs nothing but a compare in each tick. The slots and the handler come with the first sample.
 * Threads    any; no lock of HAKMEM's is held. */
#ifndef HK_SAMPLED_H
#define HK_SAMPLED_H

#include "guard/sampled_slots.h"
#include "prof/apart.h"
#include "span/descriptor.h"
#include "tcache/tick.h"

/* At start. */
void hk_sampled_begin(void);

/* True, once, after the tcache refused an allocation because it is picked. */
HK_INLINE bool hk_sampled_picked(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    return cache != NULL && hk_tick_take_pick(cache);
}
/* An allocation that the tcache picked, zeroed; NULL if there is no room for it: then the tcache serves it.
 * `caller` is the return address of the exported function. Precondition: the thread has a tcache. */
void *hk_sampled_alloc(size_t size, size_t align, void *caller);

/* True also for a block that was picked while the process is watched (prof/apart.h). */
HK_INLINE bool hk_sampled_has(const void *block) { return hk_slots_hold(block) || hk_apart_holds(block); }
/* The bytes that the program may use. Fatal if `block` is no live block. Precondition: hk_sampled_has(block). */
size_t hk_sampled_size(enum hk_call call, const void *block);
/* The same precondition, and fatal in the same way. `caller` as above. */
void hk_sampled_free(enum hk_call call, void *block, void *caller);

#endif
