/* Large modified: large blocks whose mapping the program changes by mprotect, mlock, madvise, mremap and the like. The next owner of the
 * memory must not see the change: an modified block serves no request and is unmapped when it is freed.
 *
 * Owns     `modified` of large blocks; xunnoted.
 * Threads  note: any, also in a signal handler: it never waits for a lock. `_locked`: the holder of the large lock. */
#ifndef HK_LARGE_MODIFIED_H
#define HK_LARGE_MODIFIED_H

#include "base/base.h"

/* Called before the program changes the mappings of this range. Marks the large blocks in it as modified. */
void hk_large_note_modified(uintptr_t start, size_t size);
/* Marks all large blocks: a note found the lock taken, and its range is lost. */
HK_ROOM void hk_large_mark_all_locked(void);

#endif
