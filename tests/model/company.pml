/* Company: the background thread is created while other threads run, and ends before the program has one thread again or installs a
 * system call filter.
 *
 *   stage: none, being created, there, ending.   Threads A and B end; A may create it in a malloc, and so may the main thread, or
 *   install a filter
 *
 * Code     `begin_if_wanted()`, `still_wanted()`, `run()`, `wait_until_made()`, `hk_background_end()`, `hk_background_shut_in()`,
 *          `hk_background_thread_ended()` in `runtime/background.c`; `shut_in()` in `runtime/threads.c`
 * Shows    no thread is created or named behind a filter, except by the program; when all other threads have ended, the
 *          background thread has ended too and been joined; no thread waits forever
 * Not      threads that the program creates meanwhile; refusals; its sleep (waking.pml); an end on its own
 * Threads  3
 * Fault 1, assertion: the thread that takes the place does not check again that a background thread is wanted
 * Fault 2, assertion: the filter does not wait for a thread that is creating one
 * Fault 3, assertion: it counts as there before it has its name
 * Fault 4, assertion: the last thread to end does not wait for a thread that is creating one
 * Fault 5, assertion: its end does not join it
 * Fault 6, assertion: a thread that ends reads the count before it decrements it */
#include "common.pml"

#define NONE 0
#define BEING_MADE 1
#define THERE 2
#define ENDING 3

byte stage = NONE, threads = 3, ended, out; /* ended: of A and B; out: of all threads */
bool shut_in, filter, leaving, alive;

#define wanted (threads > 1 && !shut_in)

inline move_on(from, to)
{
    atomic {
        moved = (stage == from);
        if
        :: moved -> stage = to
        :: else
        fi
    }
}

inline wait_until_made() { stage != BEING_MADE }

proctype Background()
{
    bool moved;
    assert(!filter); /* its name */
    move_on(BEING_MADE, THERE);
    leaving;
    atomic { moved = false; alive = false; out++ }
}

inline begin_in_malloc()
{
    if
    :: wanted -> move_on(NONE, BEING_MADE)
    :: else -> moved = false
    fi;
    if
#if FAULT == 1
    :: moved ->
#else
    :: moved && !wanted -> move_on(BEING_MADE, NONE)
    :: moved && wanted ->
#endif
       atomic { assert(!filter); alive = true; run Background() };
#if FAULT == 3
       move_on(BEING_MADE, THERE)
#else
       wait_until_made()
#endif
    :: !moved
    fi
}

inline end()
{
#if FAULT != 4
    wait_until_made();
#endif
    move_on(THERE, ENDING);
    if
    :: moved ->
       leaving = true;
#if FAULT != 5
       !alive;
#endif
       move_on(ENDING, NONE)
    :: else
    fi
}

inline one_less()
{
#if FAULT == 6
    last = (threads == 2);
    threads--;
#else
    atomic { last = (threads == 2); threads-- };
#endif
    if
    :: last -> end()
    :: else
    fi
}

proctype Thread(bool allocates)
{
    bool moved, last;
    if
    :: allocates -> begin_in_malloc()
    :: else
    fi;
    one_less();
    atomic { moved = false; last = false; ended++; out++ }
}

/* The main thread: may allocate, or install a filter; then joins the others. */
active proctype Main()
{
    bool moved;
    atomic { run Thread(true); run Thread(false) };
    if
    :: begin_in_malloc()
    :: shut_in = true;
#if FAULT != 2
       wait_until_made();
#endif
       filter = true
    :: true
    fi;
    ended == 2;
    assert(!alive)
}
