/* Lock: a futex mutex with a rank.
 * Invariant  a thread takes locks in rising rank only (checked when HK_DEBUG); of two locks of one rank, only in fork's order.
 * Owns       which locks fork takes: the table of ranks, each with its locks.
 * Threads    any.
 * Never      held over more than one call that gives memory back, so that nobody, fork included, waits for more; and over that one
 *            only the purge's own, which no allocation waits for, that of slabs whose pages go, and, while the spare end of a large
 *            block is cut off, which its thread may want at that moment, the large lock. Tests hold it to that (fake_os.c). */
#ifndef HK_LOCK_H
#define HK_LOCK_H

#include "base/base.h"

/* The lock order; fork takes them from top to bottom. */
enum hk_rank {
    HK_RANK_NONE,
#define HK_RANK(name, at_fork, whose) HK_RANK_##name,
#include "base/ranks.def"
    HK_RANKS
};

struct hk_lock {
    _Atomic uint32_t xstate; /* 0 free, 1 held, 2 held with waiters */
    enum hk_rank
        rank; /* HK_DEBUG only, for without it a structure with a lock begins as zeros, which no file has to hold */
};

#define HK_LOCK_INIT(r)                                                                                                \
    {                                                                                                                  \
        .xstate = 0, .rank = HK_DEBUG ? (r) : HK_RANK_NONE                                                             \
    }

/* Waits; but where the program is about to abort (hk_is_aborting), perhaps with locks held, it does not: a handler of SIGABRT that
 * allocates can say then what it has to say. */
void hk_lock_slow(struct hk_lock *lock);
void hk_lock_wake(struct hk_lock *lock);
void hk_lock_note_taken(enum hk_rank rank);
void hk_lock_note_dropped(enum hk_rank rank);
/* HK_DEBUG only; false without. */
bool hk_lock_is_held(enum hk_rank rank);
/* HK_DEBUG only; true without: this thread holds no lock of a later rank. */
bool hk_lock_is_in_order(enum hk_rank rank);
/* HK_DEBUG only: a bit for each rank of which this thread has held a lock ever since it called this last. */
uint32_t hk_locks_still_held(void);

HK_INLINE bool hk_try_lock(struct hk_lock *lock)
{
    uint32_t expected = 0;
    bool got = atomic_compare_exchange_strong_explicit(&lock->xstate, &expected, 1, memory_order_acquire,
                                                       memory_order_relaxed);
    if (HK_DEBUG && got)
        hk_lock_note_taken(lock->rank);
    return got;
}

HK_INLINE void hk_lock(struct hk_lock *lock)
{
    if (HK_UNLIKELY(!hk_try_lock(lock)))
        hk_lock_slow(lock);
}

HK_INLINE void hk_unlock(struct hk_lock *lock)
{
    if (HK_DEBUG)
        hk_lock_note_dropped(lock->rank);
    if (HK_UNLIKELY(atomic_exchange_explicit(&lock->xstate, 0, memory_order_release) == 2))
        hk_lock_wake(lock);
}

/* For a caller that takes the lock again at once, many times: pauses after the wake-up, for otherwise the waiter would
 * find the lock taken again. */
void hk_unlock_in_turn(struct hk_lock *lock);

/* Of each rank the locks that fork takes: the first, and so many more, each `stride` bytes behind the one before. */
struct hk_rank_locks {
    struct hk_lock *first;
    uint32_t more, stride;
};
extern struct hk_rank_locks hk_rank_locks[HK_RANKS];

/* Fork takes this one, the only one of its rank. When a box begins, before a thread that has used it can fork. */
HK_INLINE void hk_lock_register(enum hk_rank rank, struct hk_lock *lock) { hk_rank_locks[rank].first = lock; }
/* And so many more, where it is the first of an array. */
HK_INLINE void hk_lock_register_more(enum hk_rank rank, uint32_t more, size_t stride)
{
    hk_rank_locks[rank].stride = (uint32_t)stride;
    hk_rank_locks[rank].more = more;
}

/* Around a fork, by the thread that forks: all that are registered, from top to bottom; and from bottom to top, in the parent; and in
 * the child, whose only thread holds them by way of its parent: whoever waited is gone. */
void hk_locks_take_all(void);
void hk_locks_drop_all(void);
void hk_locks_reset_all(void);
/* Waits, a tenth of a second or two at most, until the lock has been free for a moment. False: this thread may hold it, as in a signal handler. */
bool hk_lock_comes_free(const struct hk_lock *lock);
/* The same for all that fork takes. */
bool hk_locks_come_free(void);

#endif
