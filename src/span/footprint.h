/* Footprint: counts the bytes of the heap that may be resident, and says whether they may grow.
 * Invariant  The footprint stays within the option `limit`. Only threads that check it at the same time may exceed the limit together.
 * Threads    Any thread may call these functions. */
#ifndef HK_FOOTPRINT_H
#define HK_FOOTPRINT_H

#include "policy/options.h"

struct hk_footprint {
    _Atomic size_t xslices; /* bytes of dirty slices and of slices in use */
    _Atomic size_t xbig;    /* bytes of mappings of large blocks */
    _Atomic bool xscarce;   /* RLIMIT_AS is set, so address space must not be wasted */
    _Atomic bool xby_limit; /* the option `limit`, not the system, refused memory last */
};
extern struct hk_footprint hk_footprint;

HK_INLINE size_t hk_footprint_bytes(void) { return hk_load(hk_footprint.xslices) + hk_load(hk_footprint.xbig); }

HK_INLINE bool hk_footprint_allows(size_t more)
{
    return hk_options.limit == 0 || hk_footprint_bytes() + more <= hk_options.limit;
}

/* Returns the current RLIMIT_AS in bytes, or SIZE_MAX if it is unlimited. */
size_t hk_footprint_read_limit(void);
/* Counts a refusal of memory, and stores its cause for the report. */
void hk_footprint_refused(bool by_limit);

#endif
