/* Goal: tells the learner how much memory the process should use at most, how much it uses, and how many CPUs it may use. HAKMEM_GOAL sets the goal
 * in bytes, or as a percentage of the available memory. If HAKMEM_GOAL is not set, the limit of the control group (v2 or v1), if any, is the goal.
 *
 * Owns     This file reads the files of the control group. A program in a sandbox may be killed for opening a file. Therefore ticks read these files
 *          again only if HAKMEM_GOAL has an amount or HAKMEM_BACKGROUND is 1. No file stays open, because programs close unknown descriptors.
 * Threads  The first thread calls hk_goal_begin. The caller of the other functions is the first thread or holds the learner's lock. */
#ifndef HK_GOAL_H
#define HK_GOAL_H

#include "learn/learner.h"

/* Reads the option HAKMEM_GOAL. Returns true if the option sets a goal. */
bool hk_goal_begin(void);
/* Reads the machine's memory and CPUs, and the limits of the control group. Returns true if there is a goal. */
bool hk_goal_find(void);
/* Fills in the signals goal, used, cpus and stalled. Without a goal, or if no file may be read, `used` is the footprint that the caller has set. */
void hk_goal_look(struct hk_signals *saw, uint64_t now_ms);

#endif
