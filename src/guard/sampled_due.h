/* Says which allocations get a guard page, so that on average each HAKMEM_GUARD_SAMPLE bytes of small blocks have one sample.
 *
 *   background thread --every 4 ms--> a round: the gate is shut until each sample that is owed was taken, or until 2048 calls
 *                     --every 16th time--> a window instead: the gate is shut for 4 ms, only to count
 *
 * In a round, each call counts its bytes. The bytes between two rounds are estimated, because a hit counts nothing: the last windows tell how many
 * bytes the process allocates in a ms. If the process does not allocate, the round stays open, and is looked at less often.
 * Owns       This file owns the rounds. A process begins with a round of 4096 calls, so that a short program needs no background thread.
 * Threads    Any thread may call hk_sample_is_due(). Only the background thread calls hk_sample_round_if_due(). */
#pragma once

#include "tcache/layout.h"

/* Turns sampling on if the options ask for it, and begins the first round of the process or of a fork child. */
void hk_sample_rounds_begin(void);
/* Returns true if rounds need a background thread, because the first round has ended. */
bool hk_sample_rounds_wait(void);
/* Begins a round if one is due. Returns the time until the next round in ms, or UINT64_MAX if nothing is sampled. */
uint64_t hk_sample_round_if_due(uint64_t now_ms);
/* Returns true if an allocation must be sampled. `cache` may be NULL. Precondition: the allocation is made in a round, or its bin is empty. */
bool hk_sample_is_due(struct hk_tcache *cache, const struct hk_request *request);
