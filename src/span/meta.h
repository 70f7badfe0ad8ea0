/* Meta: memory for HAKMEM's own data (bins, bitmaps, tcaches, outboxes), apart from the program's blocks.
 *
 *   alloc -> a free block of the same size, freed recently -> areas of 64 KiB -> regions (meta_regions.h)
 *   pages -> regions
 *
 * Owns       no state of its own: meta_regions.h holds it.
 * Invariant  a block is zero when handed out and 64-byte aligned. Its memory is never unmapped: a stale pointer to it stays
 *            readable, and reads old data or zeros.
 * Threads    any (one lock, not held over the system calls of a purge). */
#ifndef HK_META_H
#define HK_META_H

#include "base/base.h"

/* NULL if the system refuses. */
void *hk_meta_alloc(size_t size);
/* size: as passed to hk_meta_alloc; at most 32 KiB. */
void hk_meta_free(void *p, size_t size);
/* Whole pages that the caller shares with no other data and keeps for good. */
void *hk_meta_pages(size_t size);
/* Purges such pages: they read as zeros until the caller writes to them. False if the system refuses: they are unchanged. */
bool hk_meta_rest(void *p, size_t size);
/* The caller uses so many purged bytes again. */
void hk_meta_wake(size_t size);
/* Purges free pages: those that were free at the last call too, or all. Returns bytes. */
size_t hk_meta_purge(bool all);
/* Bytes mapped. */
size_t hk_meta_mapped(void);
/* Bytes mapped and not in use. */
size_t hk_meta_unused(void);
/* Bytes not in use, in pages that may be resident. */
size_t hk_meta_spare(void);
/* Narrows [*from, *to) to the first region in it; false if it holds none. */
bool hk_meta_next(uintptr_t *from, uintptr_t *to);
/* At start: registers the lock for fork. */
void hk_meta_init(void);
/* In a fork child: ends a purge that another thread was at. */
void hk_meta_fork_child(void);

#endif
