/* Holders: the threads whose bins and depots hold the most bytes, by their numbers in the system.
 * Owns     nothing but the rows of a report. Threads are numbered only where a report is written while the program runs.
 * Threads  any, no lock: what a thread does meanwhile is seen or not. */
#ifndef HK_HOLDERS_H
#define HK_HOLDERS_H

#include "base/base.h"

enum { HK_REPORT_HOLDERS = 64 };

struct hk_holder {
    int thread;
    uint64_t served; /* blocks that its bins have served, also to threads that had them before */
    size_t in_bins, in_depots;
};

/* Fills in the rows, the largest first. Returns their number. */
unsigned hk_holders_take(struct hk_holder holders[HK_REPORT_HOLDERS]);

#endif
