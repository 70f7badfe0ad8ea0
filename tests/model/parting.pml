/* Parting: two threads end at once, each with blocks of the other's slab and of the forker's to pass on, while a third forks. Each
 * sends slabs to the others, whose inboxes may be closed; nobody may wait for who waits for him.
 *
 * Code     `hk_tcache_end()` in `tcache/ending.c`, `hk_bins_empty()` in `tcache/bins.c`, `hk_drain_all()` in `tcache/drain.c`; `hk_send()` in `slab/outbox.c`; `hk_inboxes_close()` in
 *          `slab/owner.c`; `hk_orphans_collect()` in `slab/orphans.c`; `hk_slab_heap_collect()`, `hk_slab_heap_abandon()` in `slab/slab_heap.c`; `fork_prepare()`, `fork_parent()` in `runtime/fork.c`;
 *          `hk_locks_take_all()`, `hk_locks_drop_all()` in `base/lock.c`
 * Shows    both ends and the fork come to an end, whatever the order; a thread that sends holds no lock
 * Not      what becomes of the blocks (ending.pml), what the child gets (fork.pml), the background thread (bystanders.pml)
 * Threads  3
 * Fault 1, end: what came at the last moment is sent on before the slabs are let go of
 * Fault 2, end: what came at the last moment is sent on under the orphans' lock, before the slabs are let go of
 * Fault 3, end: fork sends what the forker has when it has taken the locks
 * Fault 4, end: fork takes the orphans' lock before the pool's
 * Fault 5, end: who sends does not look at the owner again */
#include "common.pml"

#define ORPHAN 1
#define FORKER 4
/* Threads 2 and 3 end. Slab n is thread n's at first: its page map entry says so. */
byte route[5];
bool open[5];
byte pool = FREE, registry = FREE;
byte ended;

/* Until somebody takes it. */
inline send(slab)
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
#if FAULT == 2
    do
    :: atomic { seen = route[other]; done = (seen == ORPHAN || open[seen]) };
       if
       :: done -> break
       :: else
       fi;
       open[seen] || route[other] != seen
    od;
#endif
    route[me] = ORPHAN;
    unlock(registry)
}

/* There may be stolen blocks in its bins; what it drains last is not its own either. */
proctype Ending(byte me, other)
{
    byte seen;
    bool done;
    if
    :: true -> send(other); send(FORKER)
    :: true
    fi;
    open[me] = false;
#if FAULT == 1
    send(other);
    send(FORKER);
    blocks_abandon(me);
#else
    blocks_abandon(me);
#if FAULT != 2
    send(other);
    send(FORKER);
#endif
#endif
    lock(pool);
#if FAULT == 4
    lock(registry);
    unlock(registry);
#endif
    unlock(pool);
    ended++
}

proctype Forker()
{
    byte seen;
    bool done;
#if FAULT != 3
    send(2);
#endif
#if FAULT == 4
    lock(registry);
    lock(pool);
#else
    lock(pool);
    lock(registry);
#endif
#if FAULT == 3
    do
    :: atomic { seen = route[2]; done = (seen == ORPHAN || open[seen]) };
       if
       :: done -> break
       :: else
       fi;
       open[seen] || route[2] != seen
    od;
#endif
    unlock(registry);
    unlock(pool);
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
