/* Purge: returns the pages of dirty slices to the system, and unmaps free chunks.
 *
 *   the chunk whose slices have been dirty longest -> withheld from allocation -> purged, without the lock -> free, purged
 *
 * Invariant  a slice that is being purged is not free: the page heap cannot allocate it.
 * Threads    any; one lock for purges, held for one system call at a time. */
#ifndef HK_PURGE_H
#define HK_PURGE_H

#include "base/base.h"

/* Purges slices that have been dirty for at least `delay_ms` (0: all). Returns bytes. */
size_t hk_page_heap_purge(uint64_t now_ms, uint64_t delay_ms);
/* Purges chunks that have been dirty for `delay_ms`, the longest dirty first, until `enough` bytes are purged. Returns bytes. */
size_t hk_page_heap_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);
/* The same without a delay; waits for other purges. */
size_t hk_page_heap_trim(uint64_t now_ms, size_t enough);
/* Unmaps the chunks without a slice in use, and, if address space is scarce, all free slices; dirty ones only if
 * `dirty_too`. Returns the bytes of dirty slices unmapped. */
size_t hk_page_heap_unmap(bool dirty_too);
/* Purges pages of a span in use, for its user. Its chunk leaves its huge page. */
bool hk_span_purge(uintptr_t address, size_t size);
/* A divisor: a huge page is split only to purge at least a quarter of it. */
enum { HK_PART_WORTH_A_SPLIT = 4 };

#endif
