/* heap: defines the names by which a stress program calls the allocator under test.
 *
 * By default they are the names of malloc itself, so that any allocator can be preloaded. With -DSTRESS_HAK they are HAKMEM's prefixed names. Then
 * the program is linked with the sources of the core, and a sanitizer, which has its own malloc, checks the core. */
#ifndef TEST_SUPPORT_HEAP_H
#define TEST_SUPPORT_HEAP_H

#include <malloc.h>
#include <stdlib.h>

#ifdef STRESS_HAK
#include "hakmem.h"
#define heap_malloc hak_malloc
#define heap_calloc hak_calloc
#define heap_realloc hak_realloc
#define heap_memalign hak_memalign
#define heap_posix_memalign hak_posix_memalign
#define heap_aligned_alloc hak_aligned_alloc
#define heap_free hak_free
#define heap_usable_size hak_malloc_usable_size
#define heap_trim hak_malloc_trim
#else
#define heap_malloc malloc
#define heap_calloc calloc
#define heap_realloc realloc
#define heap_memalign memalign
#define heap_posix_memalign posix_memalign
#define heap_aligned_alloc aligned_alloc
#define heap_free free
#define heap_usable_size malloc_usable_size
#define heap_trim malloc_trim
#endif

#endif
