/* Puts the background thread to sleep, wakes it, and tells it to leave. */
#include "decay/background_state.h"
#include "os/os.h"
#include "policy/options.h"

#define WORTH_IF_REQUESTED (8 * HK_MIB)
#define WORTH_BY_DEFAULT (32 * HK_MIB)

_Atomic uint32_t hk_background_state;

static bool change(uint32_t from, uint32_t to)
{
    return hk_replace(hk_background_state, &from, to, memory_order_seq_cst);
}

void hk_background_state_begin(void)
{
    hk_mode_clear(HK_MODE_WAKE);
    hk_store(hk_background_state, HK_BACKGROUND_AWAKE);
}

void hk_background_state_end(void) { hk_store(hk_background_state, HK_BACKGROUND_ABSENT); }

bool hk_background_is_worth(size_t footprint)
{
    return footprint >= (hk_options.background == HK_BACKGROUND_ON ? WORTH_IF_REQUESTED : WORTH_BY_DEFAULT);
}

/* If the background thread runs a round, it needs no wake-up, because it checks the state before it sleeps. The change from IN_ROUND comes first. In
 * the other order, both changes would fail if the thread fell asleep between them. */
void hk_background_force(void)
{
    if (!change(HK_BACKGROUND_IN_ROUND, HK_BACKGROUND_AWAKE) && change(HK_BACKGROUND_ASLEEP, HK_BACKGROUND_AWAKE))
        hk_os.futex_wake(&hk_background_state, 1);
}

/* The caller frees memory before this function reads the state. hk_background_before_round() changes the state before the round looks for memory. So
 * either the round sees the memory, or this function sees that the round has begun and requests another round. */
void hk_background_notify(size_t footprint)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t state = hk_load(hk_background_state);
    if (state == HK_BACKGROUND_AWAKE || !hk_background_is_worth(footprint))
        return;
    if (state != HK_BACKGROUND_ABSENT)
        hk_background_force();
    else if (!hk_mode_has(HK_MODE_WAKE))
        hk_mode_set(HK_MODE_WAKE);
}

void hk_background_leave(void)
{
    atomic_store_explicit(&hk_background_state, HK_BACKGROUND_LEAVING, memory_order_seq_cst);
    hk_os.futex_wake(&hk_background_state, 1);
}

bool hk_background_before_round(void)
{
    bool notified = change(HK_BACKGROUND_AWAKE, HK_BACKGROUND_IN_ROUND);
    atomic_thread_fence(memory_order_seq_cst);
    return notified;
}

/* A notification does not end this wait early, because it changes the state from IN_ROUND to AWAKE without waking the thread. */
void hk_background_rest(uint64_t ms)
{
    uint64_t now = hk_os.clock_ms(), end = now + ms;
    uint32_t state;
    for (; now < end && (state = hk_load(hk_background_state)) != HK_BACKGROUND_LEAVING; now = hk_os.clock_ms())
        hk_os.futex_wait_for(&hk_background_state, state, end - now);
}

void hk_background_sleep(void)
{
    if (!change(HK_BACKGROUND_IN_ROUND, HK_BACKGROUND_ASLEEP))
        return;
    while (hk_load(hk_background_state) == HK_BACKGROUND_ASLEEP)
        hk_os.futex_wait(&hk_background_state, HK_BACKGROUND_ASLEEP);
}
