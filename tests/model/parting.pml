/* Parting: two threads end at once, each with blocks of the other's slab and of the forker's to pass on, while a third forks. Each
 * sends slabs to the others, whose inboxes may be closed; no threads may wait in a circle.
 *
 * Code     `hk_tcache_end()` in `tcache/ending.c`, `hk_bins_empty()` in `tcache/bins.c`, `hk_drain_all()` in `tcache/drain.c`; `hk_send()` in `slab/outbox.c`; `hk_inboxes_close()` in
 *          `slab/owner.c`; `hk_abandoned_collect()` in `slab/abandoned.c`; `hk_slab_heap_collect()`, `hk_slab_heap_abandon()` in `slab/slab_heap.c`; `fork_prepare()`, `fork_parent()` in `runtime/lifecycle.c`;
 *          `hk_locks_take_all()`, `hk_locks_drop_all()` in `base/lock.c`
 * Shows    both ends and the fork finish, in each order; a thread that sends holds no lock
 * Not      the fate of the blocks (ending.pml), the state of the child (fork.pml), the background thread (bystanders.pml)
 * Threads  3
 * Fault 1, end: slabs that were queued last are sent on before the own slabs are abandoned
 * Fault 2, end: slabs that were queued last are sent on under the abandoned slabs' lock, before the own slabs are abandoned
 * Fault 3, end: fork sends the forker's remote frees after it has taken the locks
 * Fault 4, end: fork takes the abandoned slabs' lock before the pool's
 * Fault 5, end: a sender does not read the owner again */
#include "common.pml"

#define ABANDONED 1
#define FORKER 4
/* Threads 2 and 3 end. Slab n is thread n's at first: its page map entry says so. */
byte entry[5];
bool open[5];
byte pool = FREE, abandoned_lock = FREE;
byte ended;

/* Until a thread takes it. */
inline send(slab)
{
    do
    :: atomic { seen = entry[slab]; done = (seen != ABANDONED && open[seen]) };
       if
       :: seen == ABANDONED -> lock(abandoned_lock); done = (entry[slab] == ABANDONED); unlock(abandoned_lock)
       :: else
       fi;
       if
       :: done -> break
       :: else
       fi;
#if FAULT == 5
       open[seen]
#else
       open[seen] || entry[slab] != seen
#endif
    od
}

inline blocks_abandon(me)
{
    lock(abandoned_lock);
#if FAULT == 2
    do
    :: atomic { seen = entry[other]; done = (seen == ABANDONED || open[seen]) };
       if
       :: done -> break
       :: else
       fi;
       open[seen] || entry[other] != seen
    od;
#endif
    entry[me] = ABANDONED;
    unlock(abandoned_lock)
}

/* Its bins may hold stolen blocks, and its last drain may return blocks of other threads. */
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
    lock(abandoned_lock);
    unlock(abandoned_lock);
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
    lock(abandoned_lock);
    lock(pool);
#else
    lock(pool);
    lock(abandoned_lock);
#endif
#if FAULT == 3
    do
    :: atomic { seen = entry[2]; done = (seen == ABANDONED || open[seen]) };
       if
       :: done -> break
       :: else
       fi;
       open[seen] || entry[2] != seen
    od;
#endif
    unlock(abandoned_lock);
    unlock(pool);
    ended++
}

init
{
    atomic {
        entry[2] = 2; entry[3] = 3; entry[FORKER] = FORKER;
        open[2] = true; open[3] = true; open[FORKER] = true;
        run Ending(2, 3); run Ending(3, 2); run Forker()
    };
    ended == 3
}
