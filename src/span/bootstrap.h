/* Bootstrap: allocates blocks from small arenas before HAKMEM can start. The memory of a freed block is never reused. Such early calls come from
 * IFUNC resolvers, before the loader has relocated this library, or before thread-local storage exists. This file also recognizes foreign pointers,
 * which another allocator returned before HAKMEM was loaded (docs/FREE.md states the rule). HAKMEM never moves the program break, so a block in the
 * break heap belongs to another allocator. free ignores such a block.
 * Owns       This file owns the arenas.
 * Invariant  The code of the arenas needs no relocation, no thread-local storage and no C library.
 * Threads    Only the loader's thread allocates, because it is the only thread then. Any thread may call the other functions. */
#ifndef HK_BOOTSTRAP_H
#define HK_BOOTSTRAP_H

#include "base/base.h"

/* Returns a zeroed block, or NULL if the arenas are full. `align` is a power of two. */
void *hk_bootstrap_alloc(size_t size, size_t align);
/* Returns the size of the block p, or SIZE_MAX if p is not from a bootstrap arena. */
size_t hk_bootstrap_size(const void *p);
/* Returns the number of readable bytes from p on if p lies in the break heap, otherwise 0. */
size_t hk_foreign_readable(const void *p);

#endif
