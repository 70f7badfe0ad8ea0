/* Puts the background thread to sleep, wakes it, and tells it to leave. */
#include "decay/wake.h"

#include "os/os.h"
#include "policy/options.h"

#define WORTH_IF_REQUESTED (8 * HK_MIB)
#define WORTH_BY_DEFAULT (32 * HK_MIB)

_Atomic uint32_t hk_wake_state;

static bool change(uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&hk_wake_state, &from, to, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

void hk_wake_begin(void)
{
    hk_mode_clear(HK_MODE_WAKE);
    hk_store(hk_wake_state, HK_WAKE_AWAKE);
}

void hk_wake_end(void) { hk_store(hk_wake_state, HK_WAKE_ABSENT); }

bool hk_wake_is_worth(size_t footprint)
{
    return footprint >= (hk_options.background == HK_BACKGROUND_ON ? WORTH_IF_REQUESTED : WORTH_BY_DEFAULT);
}

/* A thread in a round needs no wake-up: it checks the state before it sleeps. It may fall asleep between the two changes, so their
 * order matters. */
void hk_wake_force(void)
{
    if (!change(HK_WAKE_DROWSY, HK_WAKE_AWAKE) && change(HK_WAKE_ASLEEP, HK_WAKE_AWAKE))
        hk_os.futex_wake(&hk_wake_state, 1);
}

/* Frees the memory first, reads the state second; hk_wake_before_round() changes the state first, and the round reads second. */
void hk_wake_notify(size_t footprint)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t state = hk_load(hk_wake_state);
    if (state == HK_WAKE_AWAKE || !hk_wake_is_worth(footprint))
        return;
    if (state != HK_WAKE_ABSENT)
        hk_wake_force();
    else if (!hk_mode_has(HK_MODE_WAKE))
        hk_mode_set(HK_MODE_WAKE);
}

void hk_wake_leave(void)
{
    atomic_store_explicit(&hk_wake_state, HK_WAKE_LEAVING, memory_order_seq_cst);
    hk_os.futex_wake(&hk_wake_state, 1);
}

bool hk_wake_before_round(void)
{
    bool notified = change(HK_WAKE_AWAKE, HK_WAKE_DROWSY);
    atomic_thread_fence(memory_order_seq_cst);
    return notified;
}

/* A notification changes the state without a wake-up: the thread rests on. */
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
