/* Counts allocated bytes in rounds, estimates them between rounds, and shuts the gate, so that a sample is taken soon after it is due. */
#include "guard/sampled_due.h"
#include "decay/background_state.h"
#include "tcache/pool.h"

enum {
    LARGEST = 8192,   /* bytes; a larger block does not fit a slot of sampled_slots.h */
    MOST_OWED = 1024, /* the most samples that the process owes */
    SPACING = 512,    /* mean bytes between owed samples, so that the samples come from several call sites */
    FIRST_CALLS = 4096,
    CALLS = 2048,
    CALLS_PER_SAMPLE = 3, /* additional calls that a sample counts as, because it takes much longer than a call */
    LEAST_CALLS = 32,     /* a round lasts for at least this number of calls, so that several threads are counted */
    REFILL = 64 * HK_KIB, /* most bytes that a refill takes from slabs */
    ROUND_MS = 4,
    MOST_PAUSE_MS = 512,
    MOST_GAP_MS = 64, /* A longer gap shows that the process was stopped. */
    STEPS_PER_WINDOW = 16,
    NS_PER_MS = 1000000,
};

static struct {
    _Atomic int xcalls;         /* calls that are left in the round */
    _Atomic int xends_at;       /* the round may end early when at most so many calls are left; 0 in the first round */
    _Atomic int xowed;          /* samples that are due, but not taken */
    _Atomic uint64_t xended_ns; /* time at which the last round ended */
    _Atomic uint64_t xgap_ns;   /* time between the last round and this one, for which no samples are owed yet */
    uint64_t next_ms, pause_ms;
} rounds;

/* The window, and what had been allocated when it began or ended for the last time. */
static struct {
    unsigned steps; /* number of windows and rounds that have begun */
    uint64_t bytes, ns;
    double seen_bytes, seen_ns; /* bytes allocated in the last windows, and the time that they took */
    _Atomic uint64_t xrate;     /* bytes allocated in a ms */
} pace;

/* Counts allocated bytes down, and adds the samples that become due thereby to those that are owed. */
static void owe(struct hk_countdown *countdown, uint64_t bytes)
{
    unsigned most = (unsigned)hk_positive_part(MOST_OWED - hk_load(rounds.xowed));
    hk_add(rounds.xowed, (int)hk_countdown_ends(countdown, bytes, hk_options.guard_sample, most));
}

void hk_sample_rounds_begin(void)
{
    if (hk_options.guard_sample == 0)
        return;
    hk_gate_release(HK_SHUT_IN_WINDOW); /* a fork child lacks the thread that would end the window */
    pace.steps = 0;
    hk_mode_set(HK_MODE_SAMPLING);
    hk_store(rounds.xowed, 0);
    hk_store(rounds.xends_at, 0);
    hk_store(rounds.xcalls, FIRST_CALLS);
    hk_gate_shut(HK_SHUT_IN_ROUND);
}

bool hk_sample_rounds_wait(void) { return hk_load(rounds.xends_at) != 0; }

/* Begins or ends a window. Each older window counts for three quarters of the next one. */
static void turn_window(bool begins)
{
    uint64_t bytes = pace.bytes, began = pace.ns;
    if (begins)
        hk_gate_shut(HK_SHUT_IN_WINDOW);
    pace.bytes = 0;
    for (unsigned class = 0; class < HK_CLASSES && hk_classes[class].size <= LARGEST; class ++)
        pace.bytes += hk_tcaches_served(class) * hk_classes[class].size;
    pace.ns = hk_os.clock_ns();
    if (begins)
        return;
    hk_gate_release(HK_SHUT_IN_WINDOW);
    pace.seen_bytes = pace.seen_bytes * 3 / 4 + (double)(pace.bytes - bytes);
    pace.seen_ns = pace.seen_ns * 3 / 4 + (double)(pace.ns - began + 1);
    hk_store(pace.xrate, (uint64_t)(pace.seen_bytes / pace.seen_ns * NS_PER_MS));
}

uint64_t hk_sample_round_if_due(uint64_t now_ms)
{
    if (!hk_sample_rounds_wait())
        return hk_options.guard_sample != 0 ? ROUND_MS : UINT64_MAX;
    if (now_ms >= rounds.next_ms) {
        bool goes_on = hk_mode_has(HK_MODE_IN_ROUND);
        unsigned step = goes_on ? STEPS_PER_WINDOW : pace.steps++ % STEPS_PER_WINDOW;
        rounds.pause_ms = goes_on ? hk_min(2 * rounds.pause_ms, MOST_PAUSE_MS) : ROUND_MS;
        rounds.next_ms = now_ms + rounds.pause_ms;
        if (step <= 1) /* the first step is a window, which the second step ends */
            turn_window(step == 0);
        if (step != 0 && !goes_on) {
            uint64_t gap_ns = hk_os.clock_ns() - hk_load(rounds.xended_ns);
            hk_store(rounds.xgap_ns, hk_min(gap_ns, MOST_GAP_MS * NS_PER_MS));
            hk_store(rounds.xcalls, CALLS);
            hk_gate_shut(HK_SHUT_IN_ROUND);
        }
    }
    return rounds.next_ms - now_ms;
}

/* Counts a call of this round. The first call also owes samples for the time between the last round and this one. Ends the round if no calls are left,
 * or if it may end early and no samples are owed. If an option has shut the gate for good, the round never ends, so that nothing is estimated. */
static void count_call(struct hk_due *due, size_t bytes)
{
    if (due != NULL && HK_UNLIKELY(hk_load(rounds.xgap_ns) != 0))
        owe(&due->countdown, atomic_exchange(&rounds.xgap_ns, 0) * hk_load(pace.xrate) / NS_PER_MS);
    if (due != NULL && hk_countdown_runs_out(&due->countdown, bytes))
        owe(&due->countdown, 0);
    if (hk_gate_counts_all())
        return;
    int left = hk_sub(rounds.xcalls, 1) - 1;
    if (left > 0 && (left > hk_load(rounds.xends_at) || hk_load(rounds.xowed) > 0))
        return;
    hk_store(rounds.xended_ns, hk_os.clock_ns());
    hk_store(rounds.xends_at, CALLS - LEAST_CALLS);
    hk_gate_release(HK_SHUT_IN_ROUND);
}

bool hk_sample_is_due(struct hk_tcache *cache, const struct hk_request *request)
{
    unsigned class = hk_class_of_aligned(request->size, request->align);
    bool small = cache != NULL && class < HK_CLASSES && hk_classes[class].size <= LARGEST;
    struct hk_due *due = small ? &cache->guarded : NULL;
    if (hk_mode_has(HK_MODE_IN_ROUND))
        count_call(due, small ? hk_classes[class].size : 0);
    else if (hk_options.background == HK_BACKGROUND_OFF && small)
        owe(&due->countdown,
            hk_min((hk_bin_capacity(&cache->hot.bins[class]) / 2 + 1) * hk_classes[class].size, REFILL));
    if (hk_load(hk_background_state) == HK_BACKGROUND_ABSENT && hk_sample_rounds_wait())
        hk_mode_set(HK_MODE_WAKE);
    if (!small || hk_load(rounds.xowed) <= 0 || !hk_countdown_runs_out(&due->spacing, request->size) ||
        !hk_countdown_picks(&due->spacing, hk_min(SPACING, hk_options.guard_sample)))
        return false;
    hk_sub(rounds.xowed, 1);
    hk_sub(rounds.xcalls, CALLS_PER_SAMPLE);
    return true;
}
