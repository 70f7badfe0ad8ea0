/* Slack: a large block's mapping may be longer than the block. A purge cuts the slack off while the program resizes the block, frees it,
 * or gets it again.
 *
 * Code     `hk_large_alloc()`, `reuse()`, `hk_large_free()`, `hk_large_resize()`, `resize()` in `large/large.c`, `hk_large_take_cached()`, `hk_large_set_requested_locked()`, `hk_large_unset_requested_locked()`, `cut_oldest_slack()`, `unmap_while()`, `take_due_locked()` in `large/large_cache.c`, `hk_large_put_cached_locked()` in `large/large_cache.h`, `hk_large_remap_in_place()`, `hk_large_unmap()` in `large/large_state.c`
 * Shows    every byte that the program has is mapped; the descriptor holds the length of the mapping; a cached block is not
 *          unmapped while it is handed out; the totals fit whenever the lock is free
 * Not      the delay of slack; moves to another address (spans.pml has the page map entries)
 * Threads  3
 * Fault 1, assertion: resize leaves the block on the list of slack
 * Fault 2, assertion: the slack is cut off without the lock
 * Fault 3, assertion: a freed block stays on the list of slack
 * Fault 4, assertion: a block that is being unmapped stays in the cache
 * Fault 5, assertion: resize reads the length of the mapping before it has taken the block off the list */
#include "common.pml"

#define LONGEST 3 /* pages */

byte mapped = LONGEST; /* by the kernel */
byte bytes = LONGEST, asked = 1; /* the descriptor */
bool among_slacks = true, cached, seized, unmapping, gone;
byte live = 1, slack_and_cached = LONGEST - 1;
byte large = FREE;
byte ended;

inline unlock_checked()
{
    assert(gone || unmapping || seized || mapped == bytes);
    assert(gone || unmapping || seized || live == (cached -> 0 : asked));
    assert(gone || unmapping || seized || slack_and_cached == (cached -> bytes : bytes - asked));
    unlock(large)
}

inline set_requested_locked(size)
{
    asked = size;
    live = live + size;
    if
    :: size != bytes -> slack_and_cached = slack_and_cached + bytes - size; among_slacks = true
    :: else
    fi
}

inline hk_large_unset_requested_locked()
{
    live = live - asked;
    slack_and_cached = slack_and_cached - (bytes - asked)
}

/* The program reads and writes all of its block. */
inline use() { assert(mapped >= asked && !gone && !cached) }

/* To `size` pages; unchanged if the system refuses. */
inline resize(size)
{
    before = asked;
    had = bytes;
    lock(large);
    hk_large_unset_requested_locked();
#if FAULT != 1
    among_slacks = false;
#endif
#if FAULT != 5
    had = bytes;
#endif
    if
    :: had >= size -> done = true; set_requested_locked(size); unlock_checked()
    :: else ->
        seized = true;
        unlock_checked();
        if
        :: atomic { mapped = size; bytes = size; done = true }
        :: done = false
        fi;
        lock(large);
        seized = false;
        if
        :: done -> set_requested_locked(size)
        :: else -> set_requested_locked(before)
        fi;
        unlock_checked()
    fi
}

inline unmap_oldest()
{
    lock(large);
    found = cached;
    if
    :: found ->
#if FAULT != 4
       cached = false;
#endif
       slack_and_cached = slack_and_cached - bytes;
       unmapping = true
    :: else
    fi;
    unlock_checked();
    if
    :: found ->
       assert(mapped == bytes && !gone);
       mapped = 0;
       gone = true;
#if FAULT == 4
       cached = false;
#endif
       unmapping = false
    :: found -> /* the system refuses */
       lock(large);
       unmapping = false;
       slack_and_cached = slack_and_cached + bytes;
       cached = true;
       unlock_checked()
    :: !found
    fi;
    found = false
}

/* The system may refuse. */
inline cut_oldest_slack()
{
    lock(large);
#if FAULT == 2
    found = among_slacks;
    unlock_checked();
    if
    :: found -> size = asked; mapped = size
    :: else
    fi;
    lock(large);
    if
    :: found -> slack_and_cached = slack_and_cached - (bytes - size); bytes = size; among_slacks = false
    :: else
    fi;
#else
    if
    :: among_slacks ->
       assert(mapped >= asked);
       mapped = asked;
       slack_and_cached = slack_and_cached - (bytes - asked);
       bytes = asked;
       among_slacks = false
    :: true
    fi;
#endif
    unlock_checked()
}

/* Over the budget, it unmaps and cuts at once. */
inline large_free()
{
    lock(large);
    hk_large_unset_requested_locked();
#if FAULT != 3
    among_slacks = false;
#endif
    cached = true;
    slack_and_cached = slack_and_cached + bytes;
    unlock_checked();
    if
    :: unmap_oldest(); cut_oldest_slack()
    :: true
    fi
}

inline take_cached(wanted)
{
    lock(large);
    found = cached;
    if
    :: found ->
       assert(!gone);
       cached = false;
       slack_and_cached = slack_and_cached - bytes;
       if
       :: wanted <= bytes -> set_requested_locked(wanted)
       :: else -> set_requested_locked(bytes)
       fi
    :: else
    fi;
    unlock_checked()
}

inline large_alloc(wanted)
{
    take_cached(wanted);
    if
    :: found && asked != wanted ->
       resize(wanted);
       if
       :: !done -> large_free(); found = false
       :: else
       fi
    :: else
    fi
}

inline any_size()
{
    if
    :: size = 1
    :: size = 2
    :: size = 3
    fi
}

inline work()
{
    use();
    any_size();
    resize(size);
    use();
    large_free()
}

/* The first has the block at start; the other takes it from the cache. */
proctype Program(bool has)
{
    byte size, before, had;
    bool done, found = has;
    if
    :: has
    :: else -> any_size(); large_alloc(size)
    fi;
    if
    :: found -> work()
    :: else
    fi;
    ended++
}

proctype Purger()
{
    byte size;
    bool found;
    cut_oldest_slack();
    unmap_oldest();
    cut_oldest_slack();
    ended++
}

init
{
    atomic { run Program(true); run Program(false); run Purger() };
    ended == 3;
    assert(live == 0 && !seized && !unmapping && !among_slacks && (gone || cached))
}
