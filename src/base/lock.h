/* Lock: defines a mutex that waits by futex and has a rank.
 * Invariant  A thread takes locks only in the order of rising ranks. Debug builds check this. A thread takes two locks of one rank only in the
 *            order in which fork takes them.
 * Owns       This file owns the table that says for each rank which locks fork takes.
 * Threads    Any thread may take a lock.
 * Never      While a thread holds a lock, it makes at most one call that returns memory to the system. So other threads, and fork, wait for at most
 *            one such call. Only three kinds of locks are held during such a call. One is the lock of purges, for which no allocation waits. The
 *            second is the lock of the slabs whose pages are purged. The third is the lock of large blocks while the slack of a block is unmapped,
 *            because otherwise the block could grow into the slack at that moment. Tests verify this rule (fake_os.c). */
#pragma once

#include "base/base.h"

/* Lists the ranks in the order in which a thread, or fork, takes locks. */
enum hk_rank {
    HK_RANK_NONE,
#define HK_RANK(name, at_fork, whose) HK_RANK_##name,
#include "base/ranks.def"
    HK_RANKS
};

struct hk_lock {
    _Atomic uint32_t xstate; /* 0 free, 1 held, 2 held while other threads wait */
    enum hk_rank rank;       /* 0 except in debug builds, because all-zero data takes no room in the library's file */
};

#define HK_LOCK_INIT(r)                                                                                                \
    {                                                                                                                  \
        .xstate = 0, .rank = HK_DEBUG ? (r) : HK_RANK_NONE                                                             \
    }

/* Waits for the lock. Returns without the lock if the program is about to abort (hk_is_aborting), because the aborting thread may hold the lock. A
 * handler of SIGABRT can then allocate, for example to write a report. */
void hk_lock_slow(struct hk_lock *lock);
void hk_lock_wake(struct hk_lock *lock);
/* The next four functions are defined only with HK_DEBUG. This one notes that this thread has taken or dropped a lock. */
void hk_lock_note(enum hk_rank rank, bool taken);
bool hk_lock_is_held(enum hk_rank rank);
/* Returns true if this thread holds no lock of a later rank. */
bool hk_lock_is_in_order(enum hk_rank rank);
/* Returns a set of ranks. Bit r is set if this thread has held a lock of rank r all the time since its last call of this function. */
uint32_t hk_locks_still_held(void);

HK_INLINE bool hk_try_lock(struct hk_lock *lock)
{
    uint32_t expected = 0;
    bool got = hk_replace(lock->xstate, &expected, 1, memory_order_acquire);
    if (HK_DEBUG && got)
        hk_lock_note(lock->rank, true);
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
        hk_lock_note(lock->rank, false);
    if (HK_UNLIKELY(atomic_exchange_explicit(&lock->xstate, 0, memory_order_release) == 2))
        hk_lock_wake(lock);
}
/* HK_UNDER(lock, value) takes the lock, evaluates the expression `value`, unlocks, and returns the value. */
#define HK_UNDER(lock, value)                                                                                          \
    (__extension__({                                                                                                   \
        hk_lock(lock);                                                                                                 \
        __typeof__(value) under = (value);                                                                             \
        hk_unlock(lock);                                                                                               \
        under;                                                                                                         \
    }))

/* HK_COMES_TRUE(condition, pauses) evaluates the condition until it is true, but pauses at most so many times. Returns its last value. */
#define HK_COMES_TRUE(condition, pauses)                                                                               \
    (__extension__({                                                                                                   \
        bool comes_true;                                                                                               \
        for (unsigned waits = 0; !(comes_true = (condition)) && waits < (pauses); waits++)                             \
            hk_os_pause();                                                                                             \
        comes_true;                                                                                                    \
    }))

/* Unlocks, and pauses if another thread waits for the lock. This function is for callers that take the lock many times in a row. Without the pause,
 * the caller would take the lock again before the waiting thread can. */
void hk_unlock_in_turn(struct hk_lock *lock);

/* Describes the locks of a rank that fork takes. After the first lock, `more` locks follow. Each lies `stride` bytes after the previous one. */
struct hk_rank_locks {
    struct hk_lock *first;
    uint32_t more, stride;
};
extern struct hk_rank_locks hk_rank_locks[HK_RANKS];

/* Registers the only lock of a rank, so that fork takes the lock. Called before a thread that has used the lock can fork. */
HK_INLINE void hk_lock_register(enum hk_rank rank, struct hk_lock *lock) { hk_rank_locks[rank].first = lock; }
/* Registers `more` locks that follow the registered lock in an array. */
HK_INLINE void hk_lock_register_more(enum hk_rank rank, uint32_t more, size_t stride)
{
    hk_rank_locks[rank].stride = (uint32_t)stride;
    hk_rank_locks[rank].more = more;
}

/* The thread that forks calls these functions. Before the fork, take_all takes all registered locks in the order of rising ranks. After the fork,
 * drop_all releases the locks in the parent. In the child, reset_all releases them without waking a thread, because the child has no other thread. */
void hk_locks_take_all(void);
void hk_locks_drop_all(void);
void hk_locks_reset_all(void);
/* Waits until the lock is free at one moment, for at most about a tenth of a second. Returns false if the lock was never seen free, for example
 * because a signal handler calls this function in the thread that holds the lock. */
bool hk_lock_comes_free(const struct hk_lock *lock);
/* Waits like hk_lock_comes_free() for each lock that fork takes. Returns false if one of these locks was never seen free. */
bool hk_locks_come_free(void);
