/* Futex: the lock that all other models take as correct.
 *
 *   state: 0 free, 1 held, 2 held and a thread may sleep
 *
 * Code     `hk_try_lock()`, `hk_lock()`, `hk_unlock()` in `base/lock.h`; `hk_lock_slow()`, `hk_lock_wake()` in `base/lock.c`
 * Shows    one holder at a time; the next holder sees its writes; no thread sleeps forever while the lock is free
 * Not      fairness; spurious wake-ups (a woken thread checks again in any case); a program that is aborting
 * Threads  3
 * Fault 1, end: a woken thread takes the lock as if no other thread slept
 * Fault 2, end: the kernel does not compare before a thread sleeps
 * Fault 3, end: unlock is a load, then a store
 * Fault 4, assertion: lock is a load, then a store
 * Fault 5, assertion: unlock is not a release */
#define THREADS 3
#define TURNS 2
#define WORDS 1
#define DATA 0
#include "common.pml"

byte state, inside, ended;
bool asleep[THREADS + 1];

/* The exchange that begins both loops of `hk_lock_slow()`. */
#define exchange_state(old, new) atomic { old = state; state = new }

inline try_lock()
{
#if FAULT == 4
    old = state;
    if
    :: old == 0 -> state = 1
    :: else
    fi
#else
    atomic {
        old = state;
        if
        :: old == 0 -> state = 1
        :: else
        fi
    }
#endif
}

inline futex_wait()
{
#if FAULT == 2
    asleep[_pid] = true;
#else
    atomic {
        if
        :: state == 2 -> asleep[_pid] = true
        :: else
        fi
    };
#endif
    !asleep[_pid]
}

/* One sleeper, chosen by the kernel. */
inline futex_wake()
{
    if
    :: atomic { asleep[1] -> asleep[1] = false }
    :: atomic { asleep[2] -> asleep[2] = false }
    :: atomic { asleep[3] -> asleep[3] = false }
    :: atomic { !asleep[1] && !asleep[2] && !asleep[3] }
    fi
}

/* After some failed attempts (at least none) it sleeps. */
inline lock_slow()
{
    do
    :: try_lock();
       if
       :: old == 0 -> goto taken
       :: else -> break
       fi
    :: break
    od;
    exchange_state(old, 2);
    do
    :: old != 0 ->
       futex_wait();
#if FAULT == 1
       exchange_state(old, 1)
#else
       exchange_state(old, 2)
#endif
    :: else -> break
    od;
taken:
    skip
}

inline give()
{
#if FAULT == 3
    release();
    old = state;
    state = 0;
#else
    atomic {
#if FAULT != 5
        release();
#endif
        old = state;
        state = 0
    };
#endif
    if
    :: old == 2 -> futex_wake()
    :: else
    fi
}

proctype Thread()
{
    byte old, turn, seen;
    do
    :: turn < TURNS ->
       try_lock();
       if
       :: old != 0 -> lock_slow()
       :: else
       fi;
       inside++;
       assert(inside == 1);
       seen = load(DATA);
       store(DATA, seen + 1);
       inside--;
       give();
       turn++
    :: else -> break
    od;
    atomic { old = 0; turn = 0; seen = 0; ended++ }
}

init
{
    atomic { run Thread(); run Thread(); run Thread(); run Memory() };
    ended == THREADS && under_way == 0;
    assert(memory[DATA] == THREADS * TURNS && state == 0)
}
