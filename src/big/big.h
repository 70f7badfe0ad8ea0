/* BigCache: blocks of more than 1 MiB, or aligned to more than 64 KiB: mappings of their own, kept warm for reuse.
 *
 *   free -> cached, newest first -> alloc: the nearest in size       idle or over budget -> unmapped
 *   A block may lie in a mapping up to W_MAX times its size. The rest is spare: realloc finds it, purge cuts it off.
 *
 * Owns       the mappings of big blocks, in use and cached.
 * Invariant  only the unit of a big block's first byte has a page map entry (owner nobody, class big); bytes >= 64 KiB, so that no
 *            two blocks begin in one unit.
 * Threads    any (one lock); mapping and unmapping happen outside it. */
#ifndef HK_BIG_H
#define HK_BIG_H

#include "slab/slab.h"

void hk_big_init(void);

/* NULL if the system refuses. *zeroed: every byte reads as zero. align is a power of two. */
void *hk_big_alloc(size_t size, size_t align, bool *zeroed);
/* The end, naming the call, unless a big block in use begins there. What follows asks again, as free and as realloc. */
void hk_big_check(enum hk_call call, const void *block);
void hk_big_free(void *block);
/* The same, but the purge by age leaves it until then: it will be wanted again. */
void hk_big_keep(void *block, uint64_t until_ms);
/* The same, but it is unmapped now: it will not. */
void hk_big_drop(void *block);
/* The program is about to change mappings in this range, in a way that its next owner must not find: what of it is a big block's is
 * unmapped when the block is freed, and serves nobody else. Waits for no lock: signal handlers may come here. */
void hk_big_note_altered(uintptr_t start, size_t size);
/* Any big block may be the one that was altered. Called with the big lock held. */
void hk_big_mark_all_locked(void);
/* The block resized, moved where needed without copying; NULL if that cannot be: the block is as it was. */
void *hk_big_resize(void *block, size_t size);

/* Unmaps what an earlier purge, delay_ms ago or longer, has seen in the cache; all of it if delay_ms is 0. Returns bytes. */
size_t hk_big_purge(uint64_t now_ms, uint64_t delay_ms);
/* Unmaps what has lain in the cache longest, until it is `enough` bytes, of what a purge has seen there delay_ms ago; spares,
 * which a growing buffer is about to want, go after these, and only where the delay is 0. Returns bytes. */
size_t hk_big_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);

/* Does the address lie in the mapping of a big block, wherever in it? */
bool hk_big_holds(const void *p);

/* Bytes mapped: what is in use, spare or cached. */
size_t hk_big_mapped(void);

struct hk_big_totals {
    size_t live, cached; /* bytes; spares are cached */
    size_t blocks;       /* in use */
};
void hk_big_total(struct hk_big_totals *totals);

#endif
