/* Waits for a lock by futex, checks the order of ranks in debug builds, and takes all registered locks before a fork. */
#include "base/lock.h"
#include "base/message.h"
#include "os/os.h"

enum { SPINS = 100 };
enum at_fork { RESET, TAKEN };
static const uint8_t at_fork[HK_RANKS] = {
#define HK_RANK(name, at_fork, whose) [HK_RANK_##name] = at_fork,
#include "base/ranks.def"
};

struct hk_rank_locks hk_rank_locks[HK_RANKS] HK_EACH_PROCESS_DATA;

#if HK_DEBUG
static _Thread_local uint8_t held_ranks[HK_RANKS];
static _Thread_local uint32_t seen_held; /* bit r is set if rank r was held ever since the last hk_locks_still_held() */

bool hk_lock_is_held(enum hk_rank rank) { return held_ranks[rank] > 0; }

uint32_t hk_locks_still_held(void)
{
    uint32_t still = seen_held;
    seen_held = 0;
    for (unsigned rank = 0; rank < HK_RANKS; rank++)
        seen_held |= held_ranks[rank] > 0 ? 1u << rank : 0;
    return still;
}

bool hk_lock_is_in_order(enum hk_rank rank)
{
    for (unsigned higher = rank + 1u; higher < HK_RANKS; higher++)
        if (held_ranks[higher] != 0)
            return false;
    return true;
}

void hk_lock_note(enum hk_rank rank, bool taken)
{
    if (taken)
        hk_assert(hk_lock_is_in_order(rank));
    else
        hk_assert(held_ranks[rank] > 0);
    held_ranks[rank] = (uint8_t)(taken ? held_ranks[rank] + 1 : held_ranks[rank] - 1);
    seen_held &= ~(1u << rank);
}
#endif

_Static_assert(HK_RANKS <= 32, "a bit each");

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
        hk_lock_note(lock->rank, true);
}

HK_COLD void hk_lock_wake(struct hk_lock *lock) { hk_os.futex_wake(&lock->xstate, 1); }

void hk_unlock_in_turn(struct hk_lock *lock)
{
    bool waited_for = hk_load(lock->xstate) == 2;
    hk_unlock(lock);
    if (waited_for)
        hk_os_pause();
}

static struct hk_lock *lock_at(unsigned rank, unsigned n)
{
    const struct hk_rank_locks *locks = &hk_rank_locks[rank];
    return locks->first != NULL && n <= locks->more
               ? (struct hk_lock *)(void *)((char *)locks->first + (size_t)n * locks->stride)
               : NULL;
}

static void for_rank(unsigned rank, void (*act)(struct hk_lock *lock))
{
    bool wanted = at_fork[rank] == TAKEN, there = hk_rank_locks[rank].first != NULL;
    /* HAKMEM registers META under START, and fork takes START first. If META is missing, HAKMEM has not started, and other locks may be missing. */
    bool is_registered_right = wanted == there || (wanted && hk_rank_locks[HK_RANK_META].first == NULL);
    hk_assert(is_registered_right);
    for (unsigned n = 0; lock_at(rank, n) != NULL; n++) {
        hk_assert(lock_at(rank, n)->rank == rank);
        act(lock_at(rank, n));
    }
}

static void reset_lock(struct hk_lock *lock)
{
    if (HK_DEBUG)
        hk_lock_note(lock->rank, false);
    hk_store(lock->xstate, 0);
}

void hk_locks_take_all(void)
{
    for (unsigned rank = HK_RANK_NONE + 1; rank < HK_RANKS; rank++)
        for_rank(rank, hk_lock);
}

static void for_all_from_bottom(void (*act)(struct hk_lock *lock))
{
    for (unsigned rank = HK_RANKS; --rank > HK_RANK_NONE;)
        for_rank(rank, act);
}
void hk_locks_drop_all(void) { for_all_from_bottom(hk_unlock); }
void hk_locks_reset_all(void) { for_all_from_bottom(reset_lock); }

bool hk_lock_comes_free(const struct hk_lock *lock)
{
    return HK_COMES_TRUE(hk_load_acquire(lock->xstate) == 0, HK_PAUSES_A_SECOND / 10);
}

bool hk_locks_come_free(void)
{
    for (unsigned rank = HK_RANK_NONE + 1; rank < HK_RANKS; rank++)
        for (unsigned n = 0; lock_at(rank, n) != NULL; n++)
            if (!hk_lock_comes_free(lock_at(rank, n)))
                return false;
    return true;
}
