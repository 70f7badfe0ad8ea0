/* Bootstrap: memory for calls that come before HAKMEM can work at all: from IFUNC resolvers, while the dynamic loader has not yet
 * relocated this library, or before thread-local storage is set up. Small arenas, handed out once, never taken back.
 * Owns       the arenas.
 * Invariant  nothing here needs a relocation, thread-local storage or the C library.
 * Threads    alloc: the loader's, when there is no other. size: any, later. */
#ifndef HK_BOOTSTRAP_H
#define HK_BOOTSTRAP_H

#include "base/base.h"

/* Zeroed; NULL when the arenas are used up. align is a power of two. */
void *hk_bootstrap_alloc(size_t size, size_t align);

/* Bytes asked for at p; SIZE_MAX if p was not handed out by the bootstrap arena. */
size_t hk_bootstrap_size(const void *p);

#endif
