/* Live samples: the sampled live blocks by stack: the bytes that they stand for, and the free bytes that they pin.
 *
 *   a page of a slab: [taken | free | free | taken]: no purge returns it; each taken block pins a share of the free bytes
 *   a sample of that block stands for many such blocks: its share times its weight is added to its stack
 *
 * Owns     nothing but the sums of a report; they are estimates without bias, as the samples are.
 * Threads  any, no lock: a block that is freed meanwhile counts or not. Allocates nothing from the heap. */
#ifndef HK_LIVE_SAMPLES_H
#define HK_LIVE_SAMPLES_H

#include "prof/sample.h"

enum { HK_REPORT_STACKS = 200 };

struct hk_live_samples_sums {
    uint64_t blocks, bytes, pinned;
};

struct hk_live_samples_line {
    const struct hk_site *site;
    struct hk_live_samples_sums sums;
};

struct hk_live_samples {
    uint64_t mean;                                        /* bytes between two samples; 0: sampling is off */
    struct hk_live_samples_sums all;                      /* of all stacks */
    struct hk_live_samples_line stacks[HK_REPORT_STACKS]; /* those with the most bytes, live and pinned */
    unsigned shown;
};

void hk_live_samples_take(struct hk_live_samples *live_samples);

#endif
