/* ProcessMalloc: for a program that defines malloc, calloc, realloc and free, but none of the related functions: reallocarray,
 * malloc_usable_size, cfree and free_sized of HAKMEM then receive the program's pointers.
 *
 *   reallocarray -> the process's realloc: the loader's first definition     free_sized, cfree -> the process's free
 *
 * Never      reads a block that may be the program's. The hak_ functions always use HAKMEM.
 * Threads    any. */
#ifndef HK_PROCESS_MALLOC_H
#define HK_PROCESS_MALLOC_H

#include "base/base.h"

void *hk_process_reallocarray(void *block, size_t count, size_t size);
void hk_process_free(void *block);
void hk_process_free_sized(void *block, size_t size);
void hk_process_free_aligned_sized(void *block, size_t alignment, size_t size);
/* 0 for a pointer that is not a block of HAKMEM's, if the process's malloc is not HAKMEM's. */
size_t hk_process_usable_size(void *block);

#endif
