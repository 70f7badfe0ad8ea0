/* Meta: memory for HAKMEM's own words (bins, bitmaps, thread caches, outboxes); never inside users' memory.
 *
 *   alloc -> a block given back a moment ago, of that size -> chunks of 64 KiB (see meta_area.h) -> regions, mapped
 *   for good -> pages of a region of their own
 *
 * Owns       regions that are mapped for good, and what of them is free. Free pages are given back to the system.
 * Invariant  a block is zero when handed out, 64-byte aligned, and its memory is never unmapped: a stale pointer to it can be
 *            read, though what it says may be old, or zero.
 * Threads    any (one lock, never held while pages are given back). */
#ifndef HK_META_H
#define HK_META_H

#include "base/base.h"

/* NULL if the system refuses. */
void *hk_meta_alloc(size_t size);
/* The same size again; at most 32 KiB. */
void hk_meta_free(void *p, size_t size);

/* Whole pages, nothing else on them, that stay the caller's for good. */
void *hk_meta_pages(size_t size);
/* Such pages go back to the system, until they are used again: they read as zeros. False if refused: they are as they were. */
bool hk_meta_rest(void *p, size_t size);
/* So many bytes of them are in use again. */
void hk_meta_wake(size_t size);

/* Gives back pages that are free and were so at the last call, or all that are free. The bytes. */
size_t hk_meta_purge(bool all);

/* Bytes mapped; of these, bytes that nobody has in use; and of these again, bytes of pages that may be in memory. */
size_t hk_meta_mapped(void);
size_t hk_meta_unused(void);
size_t hk_meta_spare(void);

/* The first stretch of regions in [*from, *to), which it is set to; false if there is none. */
bool hk_meta_next(uintptr_t *from, uintptr_t *to);

/* At the start: fork takes its lock. */
void hk_meta_init(void);
/* In a fork child: no other thread gives pages back any more. */
void hk_meta_fork_child(void);

#endif
