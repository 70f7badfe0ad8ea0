/* Goal: how much memory the process is to stay within, how much of that it uses, and how many cpus it may use.
 *
 *   HAKMEM_GOAL, bytes or a share of what there is     else the limits of its control group (v2 or v1), if there are any
 *
 * Owns       the reading of the group's files: at the start; again at ticks only where HAKMEM_GOAL or HAKMEM_BACKGROUND asks for it: a program that has
 *            shut itself in since may be killed for opening a file.
 * Threads    begin: the first. look: one at a time.
 * Never      keeps a file open: programs close what they do not know. */
#ifndef HK_GOAL_H
#define HK_GOAL_H

#include "base/base.h"

struct hk_goal {
    uint64_t bytes;      /* 0: none */
    uint64_t used;       /* resident bytes; what HAKMEM holds warm, where nothing may be read */
    uint64_t stalled_us; /* by tasks of the system, ever; 0 where it may not be read */
    uint64_t cpus;
};

/* True if there is a goal. */
bool hk_goal_begin(void);
void hk_goal_look(struct hk_goal *goal, uint64_t now_ms, uint64_t warm_bytes);

#endif
