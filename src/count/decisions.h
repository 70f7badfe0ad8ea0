/* Decisions: passes the decisions of the rules to the log.
 *
 *   a slow path --note--> ring of HK_DECISIONS_HELD --take--> the explain log
 *
 * Owns       This file owns the ring.
 * Invariant  A decision that finds the ring full is dropped and counted.
 * Threads    Any thread may note a decision, without a lock. Only one thread at a time takes decisions.
 * Never      blocks, allocates, or makes a system call. */
#pragma once

#include "base/base.h"

enum hk_decision_kind {
#define HK_DECISION(name, who, what, unit, a, b, c, why) HK_DECISION_##name,
#include "count/decisions.def"
    HK_DECISION_KINDS
};

/* The texts are arrays, because pointers would need relocation at each start. */
struct hk_decision_row {
    char who[12], what[24], unit[12], why[160];
    char seen[3][20];
};
extern const struct hk_decision_row hk_decision_rows[HK_DECISION_KINDS];

struct hk_decision {
    uint64_t ms;
    uint64_t kind; /* enum hk_decision_kind */
    uint64_t before, after;
    uint64_t seen[3];
    uint64_t thread; /* number of the thread that owns the bin; 0 for a decision about the whole process */
    uint64_t size;   /* block size of the bin's class */
};

enum { HK_DECISIONS_HELD = 256 };

void hk_decision_note(const struct hk_decision *decision);
/* Takes the oldest decision out of the ring. Returns false if the ring is empty. */
bool hk_decision_take(struct hk_decision *decision);
/* In a fork child, drops all pending decisions. The parent logs them, and a thread that was writing one does not exist in the child. */
void hk_decisions_forget(void);
/* Returns the number of decisions dropped since the last call. */
uint64_t hk_decisions_lost(void);
