/* No thread owns an abandoned slab. A thread abandons its slabs when it ends. The slabs of threads without a tcache are abandoned from the start. The
 * commons are abandoned slabs that give new threads their first blocks if there are many threads. Short-lived threads then make no slabs.
 * A group keeps its blocks apart from the blocks of other groups, for example blocks of different types (guard/protections.def). The slabs of a
 * group are abandoned slabs. They are never adopted or released, so that no other group can use their addresses. Their free pages are purged.
 * Owns       This file owns every slab whose page map entry says HK_ABANDONED. Each class has lists for adoption, for commons and for used groups.
 * Invariant  An abandoned slab is on a list exactly while it has free blocks. The commons are adopted only if there are few threads.
 * Threads    Any thread may call these functions. A thread that holds the lock of a class is the holder of all abandoned slabs of the class. */
#pragma once

#include "slab/owner.h"

/* Abandons the caller's slab, or releases it if all its blocks are free. */
void hk_abandoned_add(struct hk_slab *slab);
/* Adopts an abandoned slab of the class that has free blocks. Returns NULL if no slab may be adopted. */
struct hk_slab *hk_abandoned_adopt(unsigned class, struct hk_owner *owner);
/* Adopts the abandoned slab that contains `block`. Returns NULL if the slab is not abandoned, or belongs to the commons or a group. */
struct hk_slab *hk_abandoned_claim(const void *block, unsigned class, struct hk_owner *owner);
/* Frees a block of an abandoned slab directly in the slab. Returns false if the slab is not abandoned. */
bool hk_abandoned_free(void *block, unsigned class);
/* Drains an abandoned slab, because it has no owner that would drain it. Returns false if the slab is not abandoned. */
bool hk_abandoned_collect(struct hk_slab *slab);

/* The numbers of the lists of abandoned slabs. Each class has all these lists. */
enum hk_abandoned_list_id {
    HK_FOR_ADOPTION, /* slabs that a thread may adopt */
    HK_COMMONS,      /* slabs that several threads share */
    HK_FIRST_GROUP,  /* the list of group 1; the lists of the other groups, up to HK_GROUPS, follow */
};
/* Returns the number of the list to which the slab of a live block belongs. The slab must be abandoned. */
HK_INLINE unsigned hk_abandoned_list(const void *block) { return hk_load(hk_slab_at((uintptr_t)block)->xlist); }

/* Allocates up to n >= 1 blocks like hk_slab_alloc() from a slab of a list or, if the list is empty, a new slab. Returns 0 if memory is refused. */
unsigned hk_abandoned_take(unsigned class, unsigned list, void **end, unsigned n);
/* Allocates a block from a list for a thread that has no tcache. Returns NULL if the system refuses memory. */
void *hk_abandoned_alloc(unsigned class, unsigned list);
/* Stores whether there are many threads. While there are many threads, the commons are not adopted. */
void hk_abandoned_crowd(bool crowded);

enum { HK_GROUPS = 8 };
/* Returns the group of a live block that lies in a slab, or 0 if the block is in no group. */
HK_INLINE unsigned hk_abandoned_group(const void *block)
{
    unsigned list = hk_abandoned_list(block);
    return list < HK_FIRST_GROUP ? 0 : list - HK_FIRST_GROUP + 1;
}

/* Returns true if the class has slabs with free blocks that a thread may adopt. Takes no lock, so the result may be outdated. */
bool hk_abandoned_has(unsigned class);
/* Purges free pages of abandoned slabs after the purge delay. If the work budget ends, returns false, and the next call continues. */
bool hk_abandoned_sweep(struct hk_sweep *sweep);
/* Purges all free pages of abandoned slabs. Returns the purged bytes. */
size_t hk_abandoned_purge(void);
/* Initializes the locks of the classes. Called before a fork, which takes these locks. */
void hk_abandoned_fork_prepare(void);
/* In a fork child, abandons and drains all slabs that `survivor` (may be NULL) does not own. Queues slabs of `survivor` if they hold remote frees. */
void hk_abandoned_add_rest(struct hk_owner *survivor);
