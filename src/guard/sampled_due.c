/* Counts the bytes that the bins have served, and shuts the gate in rounds, so that a sample is taken soon after it is due. */
#include "guard/sampled_due.h"
#include "decay/background_state.h"
#include "tcache/tcache.h"

enum {
    LARGEST = 8192,   /* bytes; a larger block does not fit a slot of sampled_slots.h */
    MOST_OWED = 1024, /* the most samples that a thread owes */
    SPACING = 512,    /* mean bytes between owed samples, so that the samples come from several call sites */
    FIRST_CALLS = 4096,
    CALLS = 2048,
    CALLS_PER_COUNT = 64,
    CALLS_PER_SAMPLE = 3, /* additional calls that a sample counts as, because it takes much longer than a call */
    LEAST_CALLS = 32,     /* a round lasts for at least this number of calls, so that several threads are counted */
    ROUND_MS = 4,
    MOST_PAUSE_MS = 512,
};

static struct {
    _Atomic unsigned xnumber;
    _Atomic int xcalls, xends_at; /* calls left in the round; the round may end early when at most this many are left */
    _Atomic int xowed;            /* samples that the counted threads owe */
    unsigned first;               /* the number of the first round */
    uint64_t next_ms, pause_ms;
} rounds;

static void begin_round(int calls, int ends_at)
{
    hk_store(rounds.xowed, 0);
    hk_store(rounds.xends_at, ends_at);
    hk_store(rounds.xcalls, calls);
    hk_add(rounds.xnumber, 1);
    hk_gate_shut(HK_SHUT_IN_ROUND);
}

void hk_sample_rounds_begin(void)
{
    if (hk_options.guard_sample == 0)
        return;
    hk_mode_set(HK_MODE_SAMPLING);
    rounds.first = hk_load(rounds.xnumber) + 1;
    begin_round(FIRST_CALLS, 0);
}

bool hk_sample_rounds_wait(void)
{
    return hk_options.guard_sample != 0 && !(hk_load(rounds.xnumber) == rounds.first && hk_mode_has(HK_MODE_IN_ROUND));
}

uint64_t hk_sample_round_if_due(uint64_t now_ms)
{
    if (!hk_sample_rounds_wait())
        return hk_options.guard_sample != 0 ? ROUND_MS : UINT64_MAX;
    if (now_ms >= rounds.next_ms) {
        bool goes_on = hk_mode_has(HK_MODE_IN_ROUND);
        rounds.pause_ms = goes_on ? hk_min(2 * rounds.pause_ms, MOST_PAUSE_MS) : ROUND_MS;
        rounds.next_ms = now_ms + rounds.pause_ms;
        if (!goes_on)
            begin_round(CALLS, CALLS - LEAST_CALLS);
    }
    return rounds.next_ms - now_ms;
}

static void count_served(struct hk_due *due, const struct hk_bin *bins)
{
    uint64_t served = 0;
    for (unsigned class = 0; class < HK_CLASSES && hk_classes[class].size <= LARGEST; class ++)
        served += bins[class].served * hk_classes[class].size;
    due->owed += hk_countdown_ends(&due->countdown, served - hk_min(due->served, served), hk_options.guard_sample,
                                   MOST_OWED - due->owed);
    due->served = served;
    if (hk_load(hk_background_state) == HK_BACKGROUND_ABSENT && hk_sample_rounds_wait())
        hk_mode_set(HK_MODE_WAKE);
}

/* Counts a call of this round. Ends the round if no calls are left, or if it may end early and no samples are owed. */
static void count_call(struct hk_tcache *cache)
{
    unsigned number = hk_load(rounds.xnumber);
    int left = hk_sub(rounds.xcalls, 1) - 1;
    if (cache != NULL && (cache->guarded.round != number || left % CALLS_PER_COUNT == 0)) {
        int owed = cache->guarded.round == number ? (int)cache->guarded.owed : 0;
        cache->guarded.round = number;
        count_served(&cache->guarded, cache->hot.bins);
        hk_add(rounds.xowed, (int)cache->guarded.owed - owed);
    }
    if (left <= 0 || (left <= hk_load(rounds.xends_at) && hk_load(rounds.xowed) <= 0))
        hk_gate_release(HK_SHUT_IN_ROUND);
}

bool hk_sample_is_due(struct hk_tcache *cache, const struct hk_request *request)
{
    unsigned class = hk_class_of_aligned(request->size, request->align);
    bool in_round = hk_mode_has(HK_MODE_IN_ROUND);
    if (in_round)
        count_call(cache);
    if (cache == NULL || class >= HK_CLASSES || hk_classes[class].size > LARGEST)
        return false;
    struct hk_due *due = &cache->guarded;
    if (!in_round && cache->until_tick <= hk_tick_weight(class))
        count_served(due, cache->hot.bins);
    uint64_t spacing = hk_min(SPACING, hk_options.guard_sample);
    if (due->owed == 0 || !hk_countdown_runs_out(&due->spacing, request->size) ||
        !hk_countdown_picks(&due->spacing, spacing))
        return false;
    due->owed--;
    hk_sub(rounds.xcalls, CALLS_PER_SAMPLE);
    if (due->round == hk_load(rounds.xnumber))
        hk_sub(rounds.xowed, 1);
    return true;
}
