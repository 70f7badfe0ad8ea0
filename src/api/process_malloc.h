/* ProcessMalloc: a program may define malloc, calloc, realloc and free itself, and none of their kin. HAKMEM's reallocarray,
 * malloc_usable_size, cfree and free_sized then get the program's pointers.
 *
 *   reallocarray -> the process's realloc: whoever's the loader found first     free_sized, cfree -> the process's free
 *
 * Never      looks into a block that may be the program's. What is called by a hak_ name is HAKMEM's own.
 * Threads    any. */
#ifndef HK_PROCESS_MALLOC_H
#define HK_PROCESS_MALLOC_H

#include "base/base.h"

void *hk_process_reallocarray(void *block, size_t count, size_t size);
void hk_process_free(void *block);
void hk_process_free_sized(void *block, size_t size);
void hk_process_free_aligned_sized(void *block, size_t alignment, size_t size);
/* 0 for what is no block of HAKMEM's, if the process's malloc is not HAKMEM's. */
size_t hk_process_usable_size(void *block);

#endif
