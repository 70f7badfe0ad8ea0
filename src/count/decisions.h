/* Decisions: what was decided, on its way from whoever decided to who writes it down.
 *
 *   a slow path --note--> ring of HK_DECISIONS_HELD --take--> the explain log
 *
 * Owns       the ring.
 * Invariant  what finds no room is counted, and lost.
 * Threads    note: any, lock-free. take: one at a time.
 * Never      blocks, allocates, or makes a system call. */
#ifndef HK_DECISIONS_H
#define HK_DECISIONS_H

#include "base/base.h"

enum hk_decision_kind {
#define HK_DECISION(name, who, what, unit, a, b, c, why) HK_DECISION_##name,
#include "count/decisions.def"
#undef HK_DECISION
    HK_DECISION_KINDS
};

/* Text within the rows: pointers would be relocated at each start. */
struct hk_decision_row {
    char who[12], what[24], unit[12], why[160];
    char seen[3][20];
};
extern const struct hk_decision_row hk_decision_rows[HK_DECISION_KINDS];

struct hk_decision {
    uint64_t ms;
    uint64_t kind;   /* enum hk_decision_kind */
    uint64_t before, after;
    uint64_t seen[3];
    uint64_t thread; /* the owner whose bins it is about; 0 if it is about all */
    uint64_t size;   /* of the class's blocks */
};

enum { HK_DECISIONS_HELD = 256 };

void hk_decision_note(const struct hk_decision *decision);
/* False if there is none. */
bool hk_decision_take(struct hk_decision *decision);
/* In a fork child: what waits is the parent's to tell, and what a thread that is gone was just noting will never be whole. */
void hk_decisions_forget(void);
/* How many were lost since this was last asked. */
uint64_t hk_decisions_lost(void);

#endif
