/* Waking: the background thread falls asleep, without a timeout, while other threads free memory and wake it.
 *
 *   state: awake, in a round (a round is under way), asleep, leaving
 *
 * Code     `hk_background_notify()`, `hk_background_force()`, `hk_background_leave()`, `hk_background_before_round()`, `hk_background_sleep()` in `decay/background_state.c`;
 *          `hk_decay_growth()`, `hk_decay_in_background()` in `decay/decay.c`; `work()` in `runtime/background.c`
 * Shows    while it sleeps, no memory is idle that came free before or that notified it since; it hears a request to leave
 * Not      heaps too small for it; rests between two rounds, which end by themselves; the work of a round (sweep.pml); up to
 *          fifteen frees without a notification
 * Threads  3
 * Fault 1, end: it falls asleep without a check of the state
 * Fault 2, assertion: it becomes in a round at the end of a round, not at the beginning
 * Fault 3, assertion: a notification reads the state before the freed memory is visible
 * Fault 4, end: the kernel does not compare before it sleeps
 * Fault 5, end: a request to leave does not wake it
 * Fault 6, end: a notification is a load, then a store
 * Fault 7, assertion: a notification checks asleep before in a round: it may fall asleep in between */
#define THREADS 3
#define WORDS 2
#include "common.pml"

#define AWAKE 0
#define DROWSY 1
#define ASLEEP 2
#define LEAVING 3
#define TURNS 2

byte state = AWAKE, seen[2], ended;
bool sleeps; /* in the kernel */

inline change(from, to, done)
{
    atomic {
        done = (state == from);
        if
        :: done -> state = to
        :: else
        fi
    }
}

inline rouse()
{
#if FAULT == 6
    if
    :: state == ASLEEP || state == DROWSY -> state = AWAKE; sleeps = false
    :: else
    fi
#else
#if FAULT == 7
    change(ASLEEP, AWAKE, done);
    if
    :: done -> sleeps = false
    :: else -> change(DROWSY, AWAKE, done)
    fi
#else
    change(DROWSY, AWAKE, done);
    if
    :: done
    :: else ->
       change(ASLEEP, AWAKE, done);
       if
       :: done -> sleeps = false
       :: else
       fi
    fi
#endif
#endif
}

/* Frees memory, then notifies. */
proctype Thread()
{
    byte turn;
    bool done;
    do
    :: turn < TURNS ->
       turn++;
       store(_pid - 1, turn);
#if FAULT != 3
       release();
#endif
       rouse()
    :: else -> break
    od;
    atomic { release(); turn = 0; done = false; ended++ }
}

inline round()
{
    idle = (load(0) != seen[0] || load(1) != seen[1]);
    seen[0] = load(0);
    seen[1] = load(1)
}

inline sleep()
{
#if FAULT == 1
    state = ASLEEP;
#else
    change(DROWSY, ASLEEP, done);
#endif
    do
    :: state == ASLEEP ->
#if FAULT == 4
       sleeps = true;
#else
       atomic {
           if
           :: state == ASLEEP -> sleeps = true
           :: else
           fi
       };
#endif
       !sleeps
    :: else -> break
    od
}

proctype Background()
{
    bool idle, done;
    do
    :: state != LEAVING ->
#if FAULT != 2
       change(AWAKE, DROWSY, done);
#endif
       round();
       if
       :: idle
       :: else ->
#if FAULT == 2
          change(AWAKE, DROWSY, done);
#endif
          sleep()
       fi
    :: else -> break
    od;
    atomic { idle = false; done = false; ended++ }
}

init
{
    atomic { run Thread(); run Thread(); run Background(); run Memory() };
    if
    :: ended == 2; sleeps; assert(seen[0] == TURNS && seen[1] == TURNS)
    :: true /* at any time */
    fi;
    state = LEAVING;
#if FAULT != 5
    sleeps = false;
#endif
    ended == 3
}
