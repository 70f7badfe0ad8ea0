/* Goal: how much memory the process should stay within, how much of it the process uses, and how many CPUs it may use.
 *
 *   HAKMEM_GOAL, bytes or a share of physical memory     else the limits of its control group (v2 or v1), if any
 *
 * Owns       the reading of the group's files: once; again at ticks only if HAKMEM_GOAL or HAKMEM_BACKGROUND is set, because a program that has
 *            entered a sandbox may be killed for opening a file. No file stays open, because programs close unknown descriptors.
 * Threads    begin: the first. find, look: one at a time. */
#ifndef HK_GOAL_H
#define HK_GOAL_H

#include "base/base.h"

struct hk_goal {
    uint64_t bytes;      /* bytes to stay within; 0: no goal */
    uint64_t used;       /* resident bytes; the footprint if no file may be read */
    uint64_t stalled_us; /* total time that tasks of the system stalled; 0: unreadable */
    uint64_t cpus;
};

/* Reads the option. Returns true if it sets a goal. */
bool hk_goal_begin(void);
/* Reads the machine's memory and CPUs, and the limits of the group. Returns true if there is a goal. Before, there is no goal, and one CPU. */
bool hk_goal_find(void);
void hk_goal_look(struct hk_goal *goal, uint64_t now_ms, uint64_t warm_bytes);

#endif
