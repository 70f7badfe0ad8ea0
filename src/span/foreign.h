/* Foreign: pointers of another allocator, from before HAKMEM was there (docs/FREE.md states the rule).
 * HAKMEM never moves the program break, so what lies in the program's break heap is somebody else's: it is left alone.
 * Threads  any. */
#ifndef HK_FOREIGN_H
#define HK_FOREIGN_H

#include "base/base.h"

/* Bytes that can be read from p on, if p lies in the break heap; else 0. */
size_t hk_foreign_readable(const void *p);

#endif
