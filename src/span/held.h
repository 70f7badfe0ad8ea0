/* Held: how much memory HAKMEM holds, and whether it may hold more.
 * Invariant  what is counted may be resident; with the option `limit` it stays within that, but for what threads take in one moment.
 * Threads    any. */
#ifndef HK_HELD_H
#define HK_HELD_H

#include "policy/options.h"

struct hk_held {
    _Atomic size_t xunits; /* bytes of units that may hold pages */
    _Atomic size_t xbigs;  /* bytes of mappings of big blocks */
    _Atomic bool xscarce;  /* the process may have only so much address space: nothing is to be wasted of it */
    _Atomic bool xby_limit; /* who refused last: the option, or the system */
};
extern struct hk_held hk_held;

HK_INLINE size_t hk_held_bytes(void) { return hk_load(hk_held.xunits) + hk_load(hk_held.xbigs); }

HK_INLINE bool hk_held_allows(size_t more)
{
    return hk_options.limit == 0 || hk_held_bytes() + more <= hk_options.limit;
}

/* RLIMIT_AS as it is now, in bytes; SIZE_MAX if there is none. */
size_t hk_held_look_at_limit(void);
/* Memory is refused: it is counted by whom, and remembered for the report. */
void hk_held_refused(bool by_limit);

#endif
