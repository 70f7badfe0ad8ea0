/* Parting: two threads end at once, each with blocks of the other's slab and of the forker's to pass on, while a third forks with
 * its own inbox closed. Each delivers to the others, whose inboxes may be closed; nobody may wait for who waits for him.
 *
 * Code     `hk_cache_end()`, `empty_bins()`, `drain_all()`, `hk_caches_fork_prepare()`,
 *          `hk_caches_fork_parent()`, `reopen_inboxes()` in `front/cache.c`; `hk_deliver()` in `slab/outbox.c`;
 *          `hk_blocks_give()`, `hk_blocks_abandon()` in `tiers/blocks.c`; `fork_prepare()`, `fork_parent()` in `api/life.c`
 * Shows    both ends and the fork come to an end, whatever the order; a thread that delivers holds no lock
 * Not      what becomes of the blocks (ending.pml), what the child gets (fork.pml), the background thread (bystanders.pml)
 * Threads  3
 * Fault 1, end: what came at the last moment is delivered before the slabs are let go of
 * Fault 2, end: the end holds the pool's lock from its beginning
 * Fault 3, end: the parent's inboxes stay closed after fork
 * Fault 4, end: fork takes the registry's lock before the pool's
 * Fault 5, end: who delivers does not look at the route again */
#include "common.pml"

#define ORPHAN 1
#define FORKER 4
/* Threads 2 and 3 end. Slab n is thread n's at first: its route says so. */
byte route[5];
bool open[5];
byte pool = FREE, registry = FREE;
byte ended;

/* Until somebody takes it. */
inline deliver(slab)
{
    do
    :: atomic { seen = route[slab]; done = (seen != ORPHAN && open[seen]) };
       if
       :: seen == ORPHAN -> lock(registry); done = (route[slab] == ORPHAN); unlock(registry)
       :: else
       fi;
       if
       :: done -> break
       :: else
       fi;
#if FAULT == 5
       open[seen]
#else
       open[seen] || route[slab] != seen
#endif
    od
}

inline blocks_abandon(me)
{
    lock(registry);
    route[me] = ORPHAN;
    unlock(registry)
}

/* There may be stolen blocks in its bins; what it drains last is not its own either. */
proctype Ending(byte me, other)
{
    byte seen;
    bool done;
#if FAULT == 2
    lock(pool);
#endif
    if
    :: true -> deliver(other); deliver(FORKER)
    :: true
    fi;
    open[me] = false;
#if FAULT == 1
    deliver(other);
    deliver(FORKER);
    blocks_abandon(me);
#else
    blocks_abandon(me);
    deliver(other);
    deliver(FORKER);
#endif
#if FAULT != 2
    lock(pool);
#endif
#if FAULT == 4
    lock(registry);
    unlock(registry);
#endif
    unlock(pool);
    ended++
}

proctype Forker()
{
    open[FORKER] = false;
#if FAULT == 4
    lock(registry);
    lock(pool);
#else
    lock(pool);
    lock(registry);
#endif
    unlock(registry);
    unlock(pool);
#if FAULT != 3
    open[FORKER] = true;
#endif
    ended++
}

init
{
    atomic {
        route[2] = 2; route[3] = 3; route[FORKER] = FORKER;
        open[2] = true; open[3] = true; open[FORKER] = true;
        run Ending(2, 3); run Ending(3, 2); run Forker()
    };
    ended == 3
}
