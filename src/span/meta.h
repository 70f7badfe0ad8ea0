/* Meta: allocates memory for HAKMEM's own data (bins, bitmaps, tcaches, outboxes), apart from the program's blocks.
 *
 *   hk_meta_alloc() -> a recently freed block of the same size; if none, lines of an area of 64 KiB; if none, a new region (meta_regions.h)
 *   hk_meta_pages() -> pages of a region
 *
 * Invariant  A block is aligned to 64 bytes, and is zero when it is allocated. The memory of a block is never unmapped. Therefore a stale pointer
 *            to a block stays readable, and reads old data, new data or zeros.
 * Threads    Any thread may call these functions. The lock of metadata is not held during the system calls of a purge. */
#pragma once

#include "base/bits.h"

/* Returns a zeroed block, or NULL if the system refuses memory. */
void *hk_meta_alloc(size_t size);
/* Frees a block. `size` is the size that was passed to hk_meta_alloc, and at most 32 KiB. */
void hk_meta_free(void *p, size_t size);
/* Returns whole pages that hold no other data. The caller never gives these pages back. Returns NULL if the system refuses memory. */
void *hk_meta_pages(size_t size);
/* Purges pages of hk_meta_pages(), which read as zeros until the caller writes to them. Changes nothing and returns false if the system refuses. */
bool hk_meta_rest(void *p, size_t size);
/* Counts `size` bytes as in use again. hk_meta_rest() has purged these bytes, and the caller uses them again from now on. */
void hk_meta_wake(size_t size);
/* Purges pages that were free at the last call too, if more than 64 KiB are spare. If `all`, purges all free pages. Returns the purged bytes. */
size_t hk_meta_purge(bool all);
size_t hk_meta_mapped(void);
/* Returns the bytes of metadata that are mapped and not in use. */
size_t hk_meta_unused(void);
/* Returns the bytes of metadata that are not in use and lie in pages that may be resident. */
size_t hk_meta_spare(void);
/* Returns the lowest range of metadata in [from, to), or an empty range at `to` if there is none. */
struct hk_range hk_meta_next(uintptr_t from, uintptr_t to);
void hk_meta_init(void);
/* In a fork child, ends the purge that another thread of the parent was running at the fork. */
void hk_meta_fork_child(void);
