/* Goal: tells the learner how much memory the process should use at most, how much it uses, and how many CPUs it may use.
 *
 *   HAKMEM_GOAL is set: its bytes, or its share of physical memory     otherwise: the limits of the control group (v2 or v1), if any
 *
 * Owns       This file reads the files of the control group. Ticks read these files again only if HAKMEM_GOAL has an amount or HAKMEM_BACKGROUND is
 *            1, because a program in a sandbox may be killed for opening a file. No file stays open, because programs close unknown descriptors.
 * Threads    The first thread calls hk_goal_begin. The caller of the other functions is the first thread or holds the learner's lock. */
#ifndef HK_GOAL_H
#define HK_GOAL_H

#include "base/base.h"

struct hk_goal {
    uint64_t bytes;      /* bytes that the process should use at most; 0: no goal */
    uint64_t used;       /* resident bytes of the process; the heap's footprint if no file may be read */
    uint64_t stalled_us; /* total time for which tasks of the system waited for memory; 0: unreadable */
    uint64_t cpus;
};

/* Reads the option HAKMEM_GOAL. Returns true if the option sets a goal. */
bool hk_goal_begin(void);
/* Reads the machine's memory and CPUs, and the limits of the control group. Returns true if there is a goal. */
bool hk_goal_find(void);
void hk_goal_look(struct hk_goal *goal, uint64_t now_ms, uint64_t warm_bytes);

#endif
