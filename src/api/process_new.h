/* ProcessNew: the forms of operator new that serve the process: HAKMEM's, or those that the program has replaced.
 * Threads  any. */
#ifndef HK_PROCESS_NEW_H
#define HK_PROCESS_NEW_H

#include "base/base.h"

void *hk_operator_new(size_t size);
void *hk_operator_new_array(size_t size);
void *hk_operator_new_nothrow(size_t size, const void *tag);
void *hk_operator_new_array_nothrow(size_t size, const void *tag);
void *hk_operator_new_aligned(size_t size, size_t align);
void *hk_operator_new_array_aligned(size_t size, size_t align);
void *hk_operator_new_aligned_nothrow(size_t size, size_t align, const void *tag);
void *hk_operator_new_array_aligned_nothrow(size_t size, size_t align, const void *tag);

HK_PROCESS(void *, process_new, (size_t size), _Znwm, hk_operator_new)
HK_PROCESS(void *, process_new_array, (size_t size), _Znam, hk_operator_new_array)
HK_PROCESS(void *, process_new_nothrow, (size_t size, const void *tag), _ZnwmRKSt9nothrow_t, hk_operator_new_nothrow)
HK_PROCESS(void *, process_new_array_nothrow, (size_t size, const void *tag), _ZnamRKSt9nothrow_t,
           hk_operator_new_array_nothrow)
HK_PROCESS(void *, process_new_aligned, (size_t size, size_t align), _ZnwmSt11align_val_t, hk_operator_new_aligned)
HK_PROCESS(void *, process_new_array_aligned, (size_t size, size_t align), _ZnamSt11align_val_t,
           hk_operator_new_array_aligned)
HK_PROCESS(void *, process_new_aligned_nothrow, (size_t size, size_t align, const void *tag),
           _ZnwmSt11align_val_tRKSt9nothrow_t, hk_operator_new_aligned_nothrow)
HK_PROCESS(void *, process_new_array_aligned_nothrow, (size_t size, size_t align, const void *tag),
           _ZnamSt11align_val_tRKSt9nothrow_t, hk_operator_new_array_aligned_nothrow)

#endif
