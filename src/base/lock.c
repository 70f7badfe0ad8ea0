#include "base/lock.h"

#include "base/fatal.h"
#include "os/os.h"

enum { SPINS = 100 };

#if HK_DEBUG
static _Thread_local uint8_t held_ranks[HK_RANK_META + 1];
static _Thread_local uint8_t holds_so_far[HK_RANK_META + 1];

uint32_t hk_lock_hold(enum hk_rank rank) { return held_ranks[rank] > 0 ? holds_so_far[rank] : 0; }

void hk_lock_note_taken(enum hk_rank rank)
{
    for (unsigned higher = rank + 1u; higher <= HK_RANK_META; higher++)
        hk_assert(held_ranks[higher] == 0);
    held_ranks[rank]++;
    holds_so_far[rank]++;
}

void hk_lock_note_dropped(enum hk_rank rank)
{
    hk_assert(held_ranks[rank] > 0);
    held_ranks[rank]--;
}
#else
uint32_t hk_lock_hold(enum hk_rank rank) { return (void)rank, 0; }
void hk_lock_note_taken(enum hk_rank rank) { (void)rank; }
void hk_lock_note_dropped(enum hk_rank rank) { (void)rank; }
#endif

HK_COLD void hk_lock_slow(struct hk_lock *lock)
{
    if (hk_load(hk_is_aborting))
        return;
    for (int i = 0; i < SPINS; i++) {
        if (hk_load(lock->xstate) == 0 && hk_try_lock(lock))
            return;
        HK_SPIN_HINT();
    }
    while (atomic_exchange_explicit(&lock->xstate, 2, memory_order_acquire) != 0)
        hk_os.futex_wait(&lock->xstate, 2);
    if (HK_DEBUG)
        hk_lock_note_taken(lock->rank);
}

HK_COLD void hk_lock_wake(struct hk_lock *lock) { hk_os.futex_wake(&lock->xstate, 1); }

void hk_unlock_in_turn(struct hk_lock *lock)
{
    if (HK_DEBUG)
        hk_lock_note_dropped(lock->rank);
    if (atomic_exchange_explicit(&lock->xstate, 0, memory_order_release) != 2)
        return;
    hk_lock_wake(lock);
    hk_os.pause();
}
