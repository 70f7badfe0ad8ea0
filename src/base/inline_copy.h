/* Inline copy: copies and zeroes short runs of 16-byte units (quanta) inline, because a call of the C library would take longer than the copy. */
#pragma once

#include "base/base.h"
#include <string.h>

enum { HK_QUANTUM = 16, HK_SHORT_RUN = 256 };

typedef long long hk_quantum __attribute__((vector_size(HK_QUANTUM), may_alias, aligned(HK_QUANTUM)));

/* Copies the pairs `first` to `end` - 1 of a run, or zeroes them if `zeroes`. Pair i consists of the i-th quantum from the start of the run and the
 * i-th quantum from the end, counted from 0. 1, 2, 4 or 8 pairs cover any short run, because pairs may overlap. */
HK_INLINE void hk_write_pairs(hk_quantum *to, hk_quantum *last_to, const hk_quantum *from, const hk_quantum *last_from,
                              bool zeroes, long first, long end)
{
#pragma GCC unroll 4
    for (long i = first; i < end; i++) {
        to[i] = zeroes ? (hk_quantum){0} : from[i];
        last_to[-i] = zeroes ? (hk_quantum){0} : last_from[-i];
    }
}

HK_INLINE void hk_write_short(void *to, const void *from, size_t bytes, bool zeroes)
{
    size_t last = (bytes - (bytes != 0)) / HK_QUANTUM; /* index of the last quantum */
    hk_quantum *last_to = (hk_quantum *)to + last;
    const hk_quantum *last_from = (const hk_quantum *)from + last;
    hk_write_pairs(to, last_to, from, last_from, zeroes, 0, 1);
    if (bytes <= 2 * HK_QUANTUM)
        return;
    hk_write_pairs(to, last_to, from, last_from, zeroes, 1, 2);
    if (bytes <= 4 * HK_QUANTUM)
        return;
    hk_write_pairs(to, last_to, from, last_from, zeroes, 2, 4);
    if (bytes > 8 * HK_QUANTUM)
        hk_write_pairs(to, last_to, from, last_from, zeroes, 4, 8);
}

/* Copies `bytes` bytes. Both addresses must be multiples of 16. A copy of up to 256 bytes copies whole quanta, and at least one. */
HK_INLINE void hk_inline_copy(void *to, const void *from, size_t bytes)
{
    if (HK_UNLIKELY(bytes > HK_SHORT_RUN))
        memcpy(to, from, bytes);
    else
        hk_write_short(to, from, bytes, false);
}

/* Zeroes as many bytes as hk_inline_copy would write. Returns `at`, as memset does, so that the caller can make a tail call. */
HK_INLINE void *hk_inline_zero(void *at, size_t bytes)
{
    if (HK_UNLIKELY(bytes > HK_SHORT_RUN))
        return memset(at, 0, bytes);
    hk_write_short(at, at, bytes, true);
    return at;
}

/* Returns true if all bytes are zero. `at` and `bytes` are multiples of 16, and `bytes` is not 0. */
HK_INLINE bool hk_is_zero(const char *at, size_t bytes)
{
    const hk_quantum *quanta = (const void *)at;
    hk_quantum any = quanta[0];
    for (size_t i = 1; i < bytes / HK_QUANTUM; i++)
        any |= quanta[i];
    return (any[0] | any[1]) == 0;
}
