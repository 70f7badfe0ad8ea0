/* Footprint: counts the bytes of the heap that may be resident, and says whether the option `limit` allows more of them.
 * Invariant  The footprint stays within the option `limit`. Only threads that check the limit at the same time may exceed it together.
 * Threads    Any thread may call these functions. */
#pragma once

#include "base/bits.h"
#include "policy/options.h"

struct hk_footprint {
    _Atomic size_t xslices;    /* bytes of slices that are in use or dirty */
    _Atomic size_t xbig;       /* bytes of mappings of large blocks */
    _Atomic size_t xinherited; /* the smallest footprint since the fork that made this process; 0 in other processes */
    _Atomic bool xscarce;      /* true if RLIMIT_AS is set, so that address space must not be wasted */
    _Atomic bool xby_limit;    /* true if the last refusal of memory was due to the option `limit`, not to the system */
};
extern struct hk_footprint hk_footprint;

HK_INLINE size_t hk_footprint_bytes(void) { return hk_load(hk_footprint.xslices) + hk_load(hk_footprint.xbig); }

/* Returns the bytes by which the footprint has grown since the process began. A forked child counts from the smallest footprint that an earlier call
 * saw, so that a child that frees inherited memory and then grows counts this growth. */
HK_INLINE size_t hk_footprint_grown(void)
{
    size_t bytes = hk_footprint_bytes(), inherited = hk_load(hk_footprint.xinherited);
    if (HK_UNLIKELY(bytes < inherited))
        hk_store(hk_footprint.xinherited, bytes);
    return bytes - hk_min(bytes, inherited);
}
HK_INLINE void hk_footprint_fork_child(void) { hk_store(hk_footprint.xinherited, hk_footprint_bytes()); }

HK_INLINE bool hk_footprint_allows(size_t more)
{
    return hk_options.limit == 0 || hk_footprint_bytes() + more <= hk_options.limit;
}

/* Reads the current RLIMIT_AS, and sets xscarce. Returns the limit in bytes, or SIZE_MAX if there is no limit. */
size_t hk_footprint_read_limit(void);
/* Counts a refusal of memory. Stores for the report whether the option `limit` caused the refusal. */
void hk_footprint_refused(bool by_limit);
