/* Residence: which part of what is mapped is really in memory, and what else of the process is.
 *
 *   /proc/self/smaps -> a mapping without a page of HAKMEM's: rest_of_process, as the kernel counts it
 *                    -> one with such pages: page by page, HAKMEM's to the parts, what lies between them to rest_of_process
 *
 * Invariant  while nothing changes, and where the system says which pages are in memory: the parts and rest_of_process sum to
 *            `total`, but for what is lost in rounding.
 * Threads    any; what is unmapped meanwhile counts nothing. */
#ifndef HK_RESIDENCE_H
#define HK_RESIDENCE_H

#include "report/census.h"

struct hk_residence {
    size_t parts[HK_PARTS];
    size_t rest_of_process; /* code, stacks, mappings that are not HAKMEM's */
    size_t total;           /* as the kernel counts, summed over the mappings; 0 if it does not say */
};

/* `census` says how blocks in use divide into live ones and free ones on their way. */
void hk_residence_take(struct hk_residence *residence, const struct hk_census *census);

#endif
