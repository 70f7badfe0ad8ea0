#include "decay/wake.h"

#include "os/os.h"
#include "policy/options.h"

#define WORTH_WHERE_ASKED (8 * HK_MIB)
#define WORTH_UNASKED (32 * HK_MIB)

_Atomic uint32_t hk_wake_state;
_Atomic bool hk_wake_wanted;

static bool change(uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&hk_wake_state, &from, to, memory_order_seq_cst, memory_order_relaxed);
}

void hk_wake_begin(void)
{
    hk_store(hk_wake_wanted, false);
    hk_store(hk_wake_state, HK_WAKE_AWAKE);
}

void hk_wake_end(void) { hk_store(hk_wake_state, HK_WAKE_ABSENT); }

bool hk_wake_is_worth(size_t footprint)
{
    return footprint >= (hk_options.background == HK_BACKGROUND_ON ? WORTH_WHERE_ASKED : WORTH_UNASKED);
}

/* Who is in the middle of a round needs only a word: it looks again before it sleeps. In this order: it may fall asleep in between. */
void hk_wake_force(void)
{
    if (!change(HK_WAKE_DROWSY, HK_WAKE_AWAKE) && change(HK_WAKE_ASLEEP, HK_WAKE_AWAKE))
        hk_os.futex_wake(&hk_wake_state, 1);
}

/* What came free is in its place, and then the state is read; in a round it is the other way round. */
void hk_wake_notify(size_t footprint)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t state = hk_load(hk_wake_state);
    if (state == HK_WAKE_AWAKE || !hk_wake_is_worth(footprint))
        return;
    if (state != HK_WAKE_ABSENT)
        hk_wake_force();
    else if (!hk_load(hk_wake_wanted))
        hk_store(hk_wake_wanted, true);
}

void hk_wake_leave(void)
{
    atomic_store_explicit(&hk_wake_state, HK_WAKE_LEAVING, memory_order_seq_cst);
    hk_os.futex_wake(&hk_wake_state, 1);
}

bool hk_wake_before_round(void)
{
    bool stirred = change(HK_WAKE_AWAKE, HK_WAKE_DROWSY);
    atomic_thread_fence(memory_order_seq_cst);
    return stirred;
}

/* Who stirs it changes the word it waits on, and need not wake it. */
void hk_wake_rest(uint64_t ms)
{
    uint64_t now = hk_os.clock_ms(), end = now + ms;
    for (; now < end && !hk_wake_is_leaving(); now = hk_os.clock_ms()) {
        uint32_t state = hk_load(hk_wake_state);
        if (state != HK_WAKE_LEAVING)
            hk_os.futex_wait_for(&hk_wake_state, state, end - now);
    }
}

void hk_wake_sleep(void)
{
    if (!change(HK_WAKE_DROWSY, HK_WAKE_ASLEEP))
        return;
    while (hk_load(hk_wake_state) == HK_WAKE_ASLEEP)
        hk_os.futex_wait(&hk_wake_state, HK_WAKE_ASLEEP);
}
