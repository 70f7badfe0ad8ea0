/* Abandoned slabs: slabs without a thread: those of threads that have ended, and those made for threads that have no cache; and commons, from
 * which new threads take their first blocks where there are many threads: a short one then needs no slab of its own.
 *
 * Groups: slabs of blocks that may share their memory with no other group's, as of different types (guard/protections.def). They are
 * abandoned slabs that nobody adopts, and that are never released: so their addresses, too, serve no other group. Their pages are purged.
 *
 * Owns       every slab whose page map entry says HK_ABANDONED; for each class a list of those with free blocks, one of commons, and one for
 *            each group that is used.
 * Invariant  an abandoned slab is on a list exactly while it has free blocks. A commons slab is adopted only where there are few threads.
 * Threads    any; the lock of a class makes its holder the holder of all abandoned slabs of the class. */
#ifndef HK_ABANDONED_H
#define HK_ABANDONED_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* Abandons the caller's slab. A slab of free blocks is released. */
void hk_abandoned_add(struct hk_slab *slab);
/* Adopts an abandoned slab of the class that has free blocks; NULL if there is none. */
struct hk_slab *hk_abandoned_adopt(unsigned class, struct hk_owner *owner);
/* Adopts the abandoned slab that `block` lies in; NULL if the slab is not abandoned, or not any more. */
struct hk_slab *hk_abandoned_claim(void *block, unsigned class, struct hk_owner *owner);
/* Frees a block of an abandoned slab in place; false if its slab is not abandoned, or not any more. */
bool hk_abandoned_free(void *block, unsigned class);
/* Drains an abandoned slab that the caller has to queue; false if the slab is not abandoned, or not any more. */
bool hk_abandoned_collect(struct hk_slab *slab);

/* The lists of a class. */
enum hk_abandoned_list_id {
    HK_FOR_ADOPTION,
    HK_COMMONS,     /* threads share the slabs */
    HK_FIRST_GROUP, /* and those of the other groups */
};
/* The list of the slab of a live block, an abandoned slab. */
HK_INLINE unsigned hk_abandoned_list(const void *block) { return hk_load(hk_slab_at((uintptr_t)block)->xlist); }

/* Allocates up to n >= 1 blocks from the commons; they end at `end`. Returns their number: 0 if the system refuses memory. */
unsigned hk_abandoned_take_common(unsigned class, void **end, unsigned n);
/* Says whether there are many threads: then commons are not adopted. */
void hk_abandoned_crowd(bool crowded);

enum { HK_GROUPS = 8 };
/* A block of a slab of the group, 1 to HK_GROUPS; NULL if the system refuses memory. */
void *hk_abandoned_take_of_group(unsigned class, unsigned group);
/* The group of a live block that lies in a slab; 0: none. */
HK_INLINE unsigned hk_abandoned_group(const void *block)
{
    unsigned list = hk_abandoned_list(block);
    return list < HK_FIRST_GROUP ? 0 : list - HK_FIRST_GROUP + 1;
}

/* True where there are abandoned slabs of the class with free blocks. Reads without the lock. */
bool hk_abandoned_has(unsigned class);
/* A block for a thread that has no cache; NULL if the system refuses memory. */
void *hk_abandoned_alloc(unsigned class);
/* Purges pages of abandoned slabs that have been free for the purge delay, as long as the work budget lasts. The next call continues there.
 * Returns true at the end of all classes. */
bool hk_abandoned_sweep(struct hk_sweep *sweep);
/* Purges all free pages of abandoned slabs. Returns bytes. */
size_t hk_abandoned_purge(void);
/* Initializes the locks, before fork takes them. */
void hk_abandoned_fork_prepare(void);
/* In a fork child: makes abandoned slabs of the slabs of threads that the child does not have, all but those of `survivor`, which may be NULL.
 * Drains them; the survivor's slabs that hold remote frees are queued. */
void hk_abandoned_add_rest(struct hk_owner *survivor);

#endif
