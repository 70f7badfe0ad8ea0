/* Bootstrap: allocates blocks from small arenas before HAKMEM can start. IFUNC resolvers, for example, call malloc before the loader has relocated
 * this library, or before thread-local storage exists. The memory of a freed bootstrap block is never reused. This file also recognizes foreign
 * blocks in the break heap, the memory that brk() grows. HAKMEM never grows this heap. Therefore a block in it comes from another allocator, which
 * served the program before HAKMEM was loaded. free() ignores such a block (docs/FREE.md).
 * Owns       This file owns the arenas.
 * Invariant  The code of the arenas needs no relocation, no thread-local storage and no C library.
 * Threads    Only the loader's thread allocates, because no other thread exists yet. Any thread may call the other functions. */
#pragma once

#include "base/base.h"

/* Returns a zeroed block, or NULL if the arenas are full. `align` is a power of two. */
void *hk_bootstrap_alloc(size_t size, size_t align);
/* Returns the size of the block p, or SIZE_MAX if p does not lie in a bootstrap arena. */
size_t hk_bootstrap_size(const void *p);
/* If p lies in the break heap, returns the number of bytes from p to the end of the break heap. Otherwise returns 0. */
size_t hk_foreign_readable(const void *p);
