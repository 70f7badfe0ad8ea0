/* Grains: 16 bytes each, which blocks are made of. Short runs of them are copied and zeroed here: a call of the C library
 * would take longer than the work. */
#ifndef HK_GRAINS_H
#define HK_GRAINS_H

#include <string.h>

#include "base/base.h"

enum { HK_GRAIN = 16, HK_SHORT_RUN = 256 };

typedef long long hk_grain __attribute__((vector_size(HK_GRAIN), may_alias, aligned(HK_GRAIN)));

/* Both to multiples of 16; up to 15 bytes beyond `bytes` are written, and read. */
HK_INLINE void hk_grains_copy(void *to, const void *from, size_t bytes)
{
    if (HK_UNLIKELY(bytes > HK_SHORT_RUN)) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += HK_GRAIN) {
        HK_FORGET(i); /* else it becomes a call of memcpy again */
        *(hk_grain *)(void *)((char *)to + i) = *(const hk_grain *)(const void *)((const char *)from + i);
    }
}

HK_INLINE void hk_grains_zero(void *at, size_t bytes)
{
    if (HK_UNLIKELY(bytes > HK_SHORT_RUN)) {
        memset(at, 0, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += HK_GRAIN) {
        HK_FORGET(i);
        *(hk_grain *)(void *)((char *)at + i) = (hk_grain){0};
    }
}

#endif
