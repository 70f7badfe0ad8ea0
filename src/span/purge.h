/* Purge: pages of free slices go back to the system, and whole chunks, where they are to be unmapped.
 *
 *   by_age: the chunk whose free slices have been dirty longest -> those are withheld from allocation -> purged, without the lock -> free
 *
 * Invariant  a slice is handed out only before or after its purge, never meanwhile.
 * Threads    any; one lock for purges, held for one system call at a time. */
#ifndef HK_PURGE_H
#define HK_PURGE_H

#include "base/base.h"

/* Gives back to the system what has been free for `delay_ms` at least (0: everything free). Returns bytes. */
size_t hk_page_heap_purge(uint64_t now_ms, uint64_t delay_ms);
/* Gives back what has been free longest, until it is `enough` bytes, of chunks that have had free slices for `delay_ms`. Returns
 * bytes. */
size_t hk_page_heap_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);
/* The same, of what is free now, whenever that was; waits for who is at it. */
size_t hk_page_heap_trim(uint64_t now_ms, size_t enough);
/* Unmaps the chunks of which no unit is in use, and, where address space is scarce, all free slices: those that may hold pages too, if
 * `warm_too`. Returns the bytes of these that may have held pages. */
size_t hk_page_heap_unmap(bool warm_too);
/* Gives back pages of a run that is in use; they are its user's. Its chunk leaves the huge page that it stands on. */
bool hk_span_purge(uintptr_t address, size_t size);
enum { HK_PART_WORTH_A_SPLIT = 4 }; /* of a huge page: a quarter */

#endif
