/* Foreign: pointers of another allocator that served before HAKMEM was loaded (docs/FREE.md states the rule).
 * HAKMEM never moves the program break, so a block in the break heap belongs to another allocator: free leaves it alone.
 * Threads  any. */
#ifndef HK_FOREIGN_H
#define HK_FOREIGN_H

#include "base/base.h"

/* Readable bytes from p on if p lies in the break heap; else 0. */
size_t hk_foreign_readable(const void *p);

#endif
