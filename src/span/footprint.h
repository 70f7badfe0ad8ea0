/* Held: how much memory HAKMEM holds, and whether it may hold more.
 * Invariant  what is counted may be resident; with the option `limit` it stays within that, but for what threads take in one moment.
 * Threads    any. */
#ifndef HK_FOOTPRINT_H
#define HK_FOOTPRINT_H

#include "policy/options.h"

struct hk_footprint {
    _Atomic size_t xslices; /* bytes of units that may hold pages */
    _Atomic size_t xbig;  /* bytes of mappings of big blocks */
    _Atomic bool xscarce;  /* the process may have only so much address space: nothing is to be wasted of it */
    _Atomic bool xby_limit; /* who refused last: the option, or the system */
};
extern struct hk_footprint hk_footprint;

HK_INLINE size_t hk_footprint_bytes(void) { return hk_load(hk_footprint.xslices) + hk_load(hk_footprint.xbig); }

HK_INLINE bool hk_footprint_allows(size_t more)
{
    return hk_options.limit == 0 || hk_footprint_bytes() + more <= hk_options.limit;
}

/* RLIMIT_AS as it is now, in bytes; SIZE_MAX if there is none. */
size_t hk_footprint_read_limit(void);
/* Memory is refused: it is counted by whom, and remembered for the report. */
void hk_footprint_refused(bool by_limit);

#endif
