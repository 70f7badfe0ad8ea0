/* Meta: allocates memory for HAKMEM's own data (bins, bitmaps, tcaches, outboxes), apart from the program's blocks.
 *
 *   alloc -> a free block of the same size, freed recently -> areas of 64 KiB -> regions (meta_regions.h)
 *   pages -> regions
 *
 * Owns       This file owns no state, because meta_regions.h holds the state of metadata.
 * Invariant  A block is aligned to 64 bytes, and is zero when it is handed out. The memory of a block is never unmapped. A stale pointer to a
 *            block therefore stays readable, and reads old data or zeros.
 * Threads    Any thread may call these functions. The lock of metadata is not held during the system calls of a purge. */
#ifndef HK_META_H
#define HK_META_H

#include "base/bits.h"

/* Returns a zeroed block, or NULL if the system refuses memory. */
void *hk_meta_alloc(size_t size);
/* Frees a block. `size` is the size that was passed to hk_meta_alloc, and at most 32 KiB. */
void hk_meta_free(void *p, size_t size);
/* Returns whole pages that the caller shares with no other data and keeps for good. Returns NULL if the system refuses memory. */
void *hk_meta_pages(size_t size);
/* Purges pages of hk_meta_pages. The pages read as zeros until the caller writes to them. Returns false, and changes nothing, if the system
 * refuses. */
bool hk_meta_rest(void *p, size_t size);
/* Counts `size` purged bytes as in use again. The caller calls this function before it writes to these bytes. */
void hk_meta_wake(size_t size);
/* Purges all free pages if `all`, otherwise the pages that were also free at the last call. Returns the purged bytes. */
size_t hk_meta_purge(bool all);
size_t hk_meta_mapped(void);
/* Returns the bytes of metadata that are mapped and not in use. */
size_t hk_meta_unused(void);
/* Returns the bytes of metadata that are not in use and lie in pages that may be resident. */
size_t hk_meta_spare(void);
/* Returns the part of the lowest region of metadata that lies in [from, to), or an empty range at `to` if there is none. */
struct hk_range hk_meta_next(uintptr_t from, uintptr_t to);
void hk_meta_init(void);
/* Ends a purge that another thread was running at the fork. Called in a fork child. */
void hk_meta_fork_child(void);

#endif
