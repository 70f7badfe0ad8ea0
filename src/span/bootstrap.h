/* Bootstrap: memory for calls that come before HAKMEM can start: from IFUNC resolvers, before the dynamic loader has relocated
 * this library, or before thread-local storage exists. Small arenas; their blocks are never reused.
 * This file also recognizes foreign pointers, which another allocator returned before HAKMEM was loaded (docs/FREE.md states the rule). HAKMEM
 * never moves the program break, so a block in the break heap belongs to another allocator, and free leaves it alone.
 * Owns       the arenas.
 * Invariant  the code of the arenas needs no relocation, no thread-local storage and no C library.
 * Threads    alloc: the loader's, the only one at that time. The rest: any. */
#ifndef HK_BOOTSTRAP_H
#define HK_BOOTSTRAP_H

#include "base/base.h"

/* Returns a zeroed block, or NULL if the arenas are full. `align` is a power of two. */
void *hk_bootstrap_alloc(size_t size, size_t align);
/* Returns the bytes that were requested for p, or SIZE_MAX if p is not from a bootstrap arena. */
size_t hk_bootstrap_size(const void *p);
/* Returns the number of readable bytes from p on if p lies in the break heap, otherwise 0. */
size_t hk_foreign_readable(const void *p);

#endif
