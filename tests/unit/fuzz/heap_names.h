/* Heap names: the names by which the target `heap` calls HAKMEM. With FUZZ_LINKED, HAKMEM is the malloc of the process. The names are then those
 * of the C and C++ libraries, with all forms of the operators. Without FUZZ_LINKED, the C library's malloc is also in the process, and HAKMEM's
 * names begin with hak_. */
#ifndef TEST_FUZZ_HEAP_NAMES_H
#define TEST_FUZZ_HEAP_NAMES_H

#include <malloc.h>
#include <stdlib.h>

#include "hakmem.h"

#ifdef FUZZ_LINKED
#define heap_malloc malloc
#define heap_calloc calloc
#define heap_realloc realloc
#define heap_reallocarray reallocarray
#define heap_aligned_alloc aligned_alloc
#define heap_posix_memalign posix_memalign
#define heap_memalign memalign
#define heap_valloc valloc
#define heap_pvalloc pvalloc
#define heap_free free
#define heap_free_sized free_sized
#define heap_free_aligned_sized free_aligned_sized
#define heap_usable_size malloc_usable_size
#define heap_trim malloc_trim
#define NAMED(name, other) __asm__(#name)
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
#else
#define heap_malloc hak_malloc
#define heap_calloc hak_calloc
#define heap_realloc hak_realloc
#define heap_reallocarray hak_reallocarray
#define heap_aligned_alloc hak_aligned_alloc
#define heap_posix_memalign hak_posix_memalign
#define heap_memalign hak_memalign
#define heap_valloc hak_valloc
#define heap_pvalloc hak_pvalloc
#define heap_free hak_free
#define heap_free_sized hak_free_sized
#define heap_free_aligned_sized hak_free_aligned_sized
#define heap_usable_size hak_malloc_usable_size
#define heap_trim hak_malloc_trim
#define NAMED(name, other) __asm__(#other)
#endif

void *heap_new(size_t size) NAMED(_Znwm, hk_operator_new);
void *heap_new_array(size_t size) NAMED(_Znam, hk_operator_new_array);
void *heap_new_nothrow(size_t size, const void *tag) NAMED(_ZnwmRKSt9nothrow_t, hk_operator_new_nothrow);
void *heap_new_array_nothrow(size_t size, const void *tag) NAMED(_ZnamRKSt9nothrow_t, hk_operator_new_array_nothrow);
void *heap_new_aligned(size_t size, size_t align) NAMED(_ZnwmSt11align_val_t, hk_operator_new_aligned);
void *heap_new_array_aligned(size_t size, size_t align) NAMED(_ZnamSt11align_val_t, hk_operator_new_array_aligned);
void *heap_new_aligned_nothrow(size_t size, size_t align, const void *tag)
    NAMED(_ZnwmSt11align_val_tRKSt9nothrow_t, hk_operator_new_aligned_nothrow);
void *heap_new_array_aligned_nothrow(size_t size, size_t align, const void *tag)
    NAMED(_ZnamSt11align_val_tRKSt9nothrow_t, hk_operator_new_array_aligned_nothrow);
void heap_delete(void *block) NAMED(_ZdlPv, hk_operator_delete);
void heap_delete_array(void *block) NAMED(_ZdaPv, hk_operator_delete_array);
void heap_delete_sized(void *block, size_t size) NAMED(_ZdlPvm, hk_operator_delete_sized);
void heap_delete_array_sized(void *block, size_t size) NAMED(_ZdaPvm, hk_operator_delete_array_sized);
void heap_delete_aligned(void *block, size_t align) NAMED(_ZdlPvSt11align_val_t, hk_operator_delete_aligned);
void heap_delete_array_aligned(void *block, size_t align)
    NAMED(_ZdaPvSt11align_val_t, hk_operator_delete_array_aligned);
void heap_delete_aligned_sized(void *block, size_t size, size_t align)
    NAMED(_ZdlPvmSt11align_val_t, hk_operator_delete_aligned_sized);
void heap_delete_array_aligned_sized(void *block, size_t size, size_t align)
    NAMED(_ZdaPvmSt11align_val_t, hk_operator_delete_array_aligned_sized);

#undef NAMED
#endif
