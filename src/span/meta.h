/* Meta: memory for HAKMEM's own words (bins, bitmaps, thread caches, parcels); never inside users' memory.
 * Owns       chunks that are mapped for good, each with a header, and free lists by size in them.
 * Invariant  a block is zero when handed out, 64-byte aligned, and its memory is never unmapped: a stale pointer to it can be
 *            read, though what it says may be old.
 * Threads    any (one lock). */
#ifndef HK_META_H
#define HK_META_H

#include "base/base.h"

/* NULL if the system refuses. Size at most 64 KiB. */
void *hk_meta_alloc(size_t size);
/* The same size again. */
void hk_meta_free(void *p, size_t size);

/* Bytes mapped for chunks, and bytes of them on free lists or never used. */
size_t hk_meta_mapped(void);
size_t hk_meta_unused(void);

/* The first stretch of chunks in [*from, *to), which it is set to; false if there is none. */
bool hk_meta_next(uintptr_t *from, uintptr_t *to);

/* In a fork: takes and frees the lock. */
void hk_meta_fork_prepare(void);
void hk_meta_fork_parent(void);
void hk_meta_fork_child(void);

#endif
