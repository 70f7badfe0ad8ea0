/* Abandoned slabs: slabs without a thread. Threads that have ended left them, or they were made for threads that have no cache. Some of them are
 * commons, from which new threads take their first blocks if there are many threads, so that a short-lived thread needs no slab of its own.
 *
 * Groups: slabs of blocks that must not share their memory with blocks of another group, for example because their types differ
 * (guard/protections.def). These are abandoned slabs that nobody adopts and that are never released, so that no other group can use their addresses.
 * Their pages are purged.
 *
 * Owns       every slab whose page map entry says HK_ABANDONED; for each class a list of those with free blocks, one of commons, and one for
 * each group that is used.
 * Invariant  an abandoned slab is on a list exactly while it has free blocks. A commons slab is adopted only if there are few threads.
 * Threads    any; the lock of a class makes its holder the holder of all abandoned slabs of the class. */
#ifndef HK_ABANDONED_H
#define HK_ABANDONED_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* Abandons the caller's slab, or releases it if it is all free. */
void hk_abandoned_add(struct hk_slab *slab);
/* Adopts an abandoned slab of the class that has free blocks. Returns NULL if there is none. */
struct hk_slab *hk_abandoned_adopt(unsigned class, struct hk_owner *owner);
/* Adopts the abandoned slab that contains `block`. Returns NULL if the slab is not abandoned, or is not any more. */
struct hk_slab *hk_abandoned_claim(void *block, unsigned class, struct hk_owner *owner);
/* Frees a block of an abandoned slab in place. Returns false if its slab is not abandoned, or is not any more. */
bool hk_abandoned_free(void *block, unsigned class);
/* Drains an abandoned slab, so that the caller need not queue it. Returns false if the slab is not abandoned, or is not any more. */
bool hk_abandoned_collect(struct hk_slab *slab);

/* The lists of a class. */
enum hk_abandoned_list_id {
    HK_FOR_ADOPTION,
    HK_COMMONS,     /* slabs that several threads share */
    HK_FIRST_GROUP, /* the lists of the other groups follow */
};
/* Returns the list of the slab of a live block. The slab must be abandoned. */
HK_INLINE unsigned hk_abandoned_list(const void *block) { return hk_load(hk_slab_at((uintptr_t)block)->xlist); }

/* Allocates up to n >= 1 blocks from the commons, and stores them in front of `end`. Returns their number, or 0 if the system refuses memory. */
unsigned hk_abandoned_take_common(unsigned class, void **end, unsigned n);
/* Sets whether there are many threads. Commons are not adopted while there are. */
void hk_abandoned_crowd(bool crowded);

enum { HK_GROUPS = 8 };
/* Returns a block from a slab of the group, which is 1 to HK_GROUPS. Returns NULL if the system refuses memory. */
void *hk_abandoned_take_of_group(unsigned class, unsigned group);
/* Returns the group of a live block that lies in a slab, or 0 if it has none. */
HK_INLINE unsigned hk_abandoned_group(const void *block)
{
    unsigned list = hk_abandoned_list(block);
    return list < HK_FIRST_GROUP ? 0 : list - HK_FIRST_GROUP + 1;
}

/* Returns true if there are abandoned slabs of the class with free blocks. Reads without the lock. */
bool hk_abandoned_has(unsigned class);
/* Returns a block for a thread that has no cache, or NULL if the system refuses memory. */
void *hk_abandoned_alloc(unsigned class);
/* Purges pages of abandoned slabs that have been free for the purge delay, as long as the work budget lasts. The next call continues there.
 * Returns true at the end of all classes. */
bool hk_abandoned_sweep(struct hk_sweep *sweep);
/* Purges all free pages of abandoned slabs. Returns the purged bytes. */
size_t hk_abandoned_purge(void);
/* Initializes the locks, before fork takes them. */
void hk_abandoned_fork_prepare(void);
/* Abandons and drains the slabs of all threads but `survivor` (or NULL) in a fork child. Queues the survivor's slabs that hold remote frees. */
void hk_abandoned_add_rest(struct hk_owner *survivor);

#endif
