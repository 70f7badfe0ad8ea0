/* Stores the decisions of the learner and of the bins in a ring. Any thread may write to the ring, and one thread at a time reads it. */
#include "count/decisions.h"

const struct hk_decision_row hk_decision_rows[HK_DECISION_KINDS] = {
#define HK_DECISION(name, who, what, unit, a, b, c, why) {#who, #what, #unit, why, {a, b, c}},
#include "count/decisions.def"
};

/* Holds one decision. During round n of the ring, counted from 0, the place is free if xturn is 2n, and filled if xturn is 2n + 1. */
static struct place {
    _Atomic uint64_t xturn;
    struct hk_decision decision;
} places[HK_DECISIONS_HELD] HK_COLD_DATA;
static _Atomic uint64_t xnext_noted, xlost;
static uint64_t next_taken;

static struct place *place_of(uint64_t number) { return &places[number % HK_DECISIONS_HELD]; }

/* Returns xturn's value while the place for decision `number` is free. This value is 0 in the first round, because the ring is zeroed memory. */
static uint64_t turn_of(uint64_t number) { return number / HK_DECISIONS_HELD * 2; }

void hk_decision_note(const struct hk_decision *decision)
{
    uint64_t number = hk_load(xnext_noted);
    do {
        if (hk_load_acquire(place_of(number)->xturn) != turn_of(number)) {
            hk_add(xlost, 1);
            return;
        }
    } while (!hk_replace(xnext_noted, &number, number + 1, memory_order_relaxed));
    place_of(number)->decision = *decision;
    hk_store_release(place_of(number)->xturn, turn_of(number) + 1);
}

bool hk_decision_take(struct hk_decision *decision)
{
    struct place *place = place_of(next_taken);
    if (hk_load_acquire(place->xturn) != turn_of(next_taken) + 1)
        return false;
    *decision = place->decision;
    hk_store_release(place->xturn, turn_of(next_taken) + 2);
    next_taken++;
    return true;
}

void hk_decisions_forget(void)
{
    for (; next_taken < hk_load(xnext_noted); next_taken++)
        hk_store(place_of(next_taken)->xturn, turn_of(next_taken) + 2);
}

uint64_t hk_decisions_lost(void) { return atomic_exchange_explicit(&xlost, 0, memory_order_relaxed); }
