/* Residence: how much of each part of HAKMEM's memory is resident, and how much of the rest of the process.
 *
 *   /proc/self/smaps -> a mapping without HAKMEM's pages: rest_of_process, by the kernel's count
 *                    -> a mapping with such pages: page by page; HAKMEM's to the parts, the others to rest_of_process
 *
 * Invariant  while nothing changes, and if the system reports resident pages: the parts and rest_of_process sum to `total`, up
 *            to rounding.
 * Threads    any; a mapping that disappears meanwhile counts as 0. */
#ifndef HK_RESIDENCE_H
#define HK_RESIDENCE_H

#include "report/census.h"

struct hk_residence {
    size_t parts[HK_PARTS];
    size_t rest_of_process; /* code, stacks, other mappings */
    size_t total;           /* by the kernel's count, summed over the mappings; 0 if unknown */
};

/* `census` provides the ratio of live to free among the taken blocks. */
void hk_residence_take(struct hk_residence *residence, const struct hk_census *census);

#endif
