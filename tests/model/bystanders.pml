/* Bystanders: the state in which fork finds other threads at the forking thread's memory: a thief at its inbox, the background thread at
 * its lists; and that none of them waits for another in a circle.
 *
 *   forker: takes the sweep lock, copies; parent: opens the lock; child: opens all locks by force, empties queues, queues marked slabs
 *   thief: takes the slab out of the forker's inbox, claims marked blocks, frees its own blocks under its lists lock, then the
 *   forker's without a lock          background: each owner's lists in turn, under the sweep lock and the lists lock
 *
 * Code     `fork_prepare()`, `fork_parent()`, `fork_child()` in `runtime/lifecycle.c`; `hk_locks_take_all()` in `base/lock.c`; `steal()`, `steal_idle()` in `tcache/drain.c`;
 *          `hk_owners_fork_child()`, `hk_inbox_steal()`, `take_locked()` in
 *          `slab/owner.c`; `hk_remote_claim()`, `hk_remote_restart()` in `slab/remote.c`; `sweep_some()`, `hk_decay_in_background()` in `decay/decay.c`; `hk_slab_heap_free()`, `hk_slab_heap_collect()` in `slab/slab_heap.c`, `hk_slab_heap_sweep_begin()`, `hk_slab_heap_sweep()` in `slab/idle.c`; `hk_send()` in `slab/outbox.c`
 * Shows    no thread waits in a circle; in the child a block of the forker's is marked, or the thief has it and it is lost;
 *          a marked slab is queued; the forker's lists are whole, and no lock is held by a thread that does not exist
 * Not      the other locks, other pages (fork.pml), ends (parting.pml), purges by the background thread (sweep.pml)
 * Threads  3
 * Fault 1, end: blocks of other owners are sent under the thread's lists lock
 * Fault 2, end: a thief sends before it releases the drain lock
 * Fault 3, assertion: the child believes the inbox
 * Fault 4, assertion: the child leaves the drain locks as they were
 * Fault 5, assertion: the child leaves the lists locks of other threads' owners as they were
 * Fault 6, assertion: the child leaves its own lists lock as it was
 * Fault 7, assertion: fork does not wait for the background thread */
#include "common.pml"

#define FORKER 1
#define THIEF 2
#define BIT(n) (1 << (n))

/* Blocks 1 and 2 are the forker's, marked, and their slab is in its inbox at first. */
byte marked = 6;
bool queued = true, inbox = true, pending = true, backlog;
byte stolen;               /* with the thief */
byte home;
bool open = true;          /* the forker's inbox; closed for a moment while its thread begins anew */
byte sweep_lock = FREE;
byte drain[3] = FREE, shelves[3] = FREE; /* locks, by owner */
byte first[3], last[3];    /* two words of an owner's lists */
byte ended;

/* The child's copies: each on a page of its own. */
byte c_marked, c_stolen, c_drain[3], c_shelves[3], c_first, c_last;
bool c_queued, c_inbox, c_backlog;
short copied;

/* Waits while the inbox is closed. */
inline send()
{
    atomic { open -> assert(!inbox); inbox = true };
    pending = true
}

/* The blocks are marked again. */
inline put_back()
{
    atomic { marked = marked | bin; stolen = 0; bin = 0 };
    atomic { call = !queued; queued = true };
    if
    :: call -> send()
    :: else
    fi
}

inline take_locked()
{
    if
    :: !backlog ->
       pending = false;
       atomic { backlog = inbox; inbox = false }
    :: else
    fi;
    taken = backlog;
    backlog = false
}

inline blocks_put()
{
    lock(shelves[THIEF]);
    first[THIEF]++;
    last[THIEF]++;
#if FAULT == 1
    put_back();
#endif
    unlock(shelves[THIEF]);
#if FAULT != 1
    put_back()
#endif
}

inline steal_idle()
{
    if
    :: taken ->
       atomic { bin = marked; stolen = marked; marked = 0 };
       if
       :: bin == 0 -> send()
       :: else -> queued = false; blocks_put()
       fi
    :: else
    fi
}

inline steal()
{
    if
    :: pending ->
       if
       :: atomic { drain[FORKER] == FREE -> drain[FORKER] = _pid };
          take_locked();
#if FAULT == 2
          steal_idle();
#endif
          unlock(drain[FORKER])
       :: drain[FORKER] != FREE
       fi
    :: else
    fi;
#if FAULT != 2
    steal_idle()
#endif
}

/* From its own inbox, which is empty, then from the forker's. */
proctype Thief()
{
    byte bin;
    bool taken, call;
    lock(drain[THIEF]);
    unlock(drain[THIEF]);
    steal();
    atomic { taken = false; ended++ }
}

inline sweep_begin()
{
    lock(shelves[owner]);
    unlock(shelves[owner])
}

inline sweep_some()
{
    lock(sweep_lock);
    lock(shelves[owner]);
    first[owner]++;
    last[owner]++;
    unlock(shelves[owner]);
    lock(shelves[owner]); /* is it open? */
    unlock(shelves[owner]);
    unlock(sweep_lock)
}

proctype Background()
{
    byte owner = THIEF;
    do
    :: owner >= FORKER -> sweep_begin(); sweep_some(); owner--
    :: else -> break
    od;
    atomic { owner = 0; ended++ }
}

inline prepare()
{
#if FAULT != 7
    lock(sweep_lock)
#else
    skip
#endif
}

#define page(n, from, to) atomic { !(copied & BIT(n)) -> to = from; copied = copied | BIT(n) }

/* In any order. */
inline copy_pages()
{
    do
    :: atomic { !(copied & BIT(0)) -> c_marked = marked; c_stolen = stolen; copied = copied | BIT(0) }
#if FAULT == 3 /* else the child does not believe it */
    :: page(1, queued, c_queued)
    :: page(2, inbox, c_inbox)
    :: page(3, backlog, c_backlog)
#endif
    :: page(4, drain[FORKER], c_drain[FORKER])
    :: page(5, drain[THIEF], c_drain[THIEF])
    :: page(6, shelves[FORKER], c_shelves[FORKER])
    :: page(7, shelves[THIEF], c_shelves[THIEF])
    :: page(8, first[FORKER], c_first)
    :: page(9, last[FORKER], c_last)
#if FAULT == 3
    :: copied == 1023 -> break
#else
    :: copied == 1009 -> break
#endif
    od
}

/* The only thread of its process: one step. */
inline child()
{
    d_step {
#if FAULT != 4
        c_drain[FORKER] = FREE;
        c_drain[THIEF] = FREE;
#endif
#if FAULT != 5
        c_shelves[THIEF] = FREE;
#endif
#if FAULT != 6
        c_shelves[FORKER] = FREE;
#endif
        assert(c_drain[FORKER] == FREE && c_drain[THIEF] == FREE);
        assert(c_shelves[FORKER] == FREE && c_shelves[THIEF] == FREE);
#if FAULT != 3
        c_backlog = false;
        c_queued = (c_marked != 0);
        c_inbox = c_queued;
#endif
        assert((c_marked | c_stolen) == 6 && !(c_marked & c_stolen));
        assert(c_queued == (c_inbox + c_backlog) && (c_marked == 0 || c_queued));
        assert(c_first == c_last);
        c_marked = 0; c_stolen = 0; c_backlog = false; c_queued = false; c_inbox = false; c_first = 0; c_last = 0; copied = 0;
        c_drain[FORKER] = 0; c_drain[THIEF] = 0; c_shelves[FORKER] = 0; c_shelves[THIEF] = 0
    }
}

inline parent()
{
#if FAULT != 7
    unlock(sweep_lock)
#else
    skip
#endif
}

/* Ends and begins anew, which takes its own locks; forks; waits for its blocks. */
proctype Forker()
{
    byte bin;
    bool taken, call;
    if
    :: open = false;
       lock(drain[FORKER]);
       unlock(drain[FORKER]);
       lock(shelves[THIEF]); /* adopts or works for the pool: stands for each lock that is held for a moment */
       unlock(shelves[THIEF]);
       open = true
    :: true
    fi;
    prepare();
    copy_pages();
    child();
    parent();
    do
    :: home != 6 ->
       pending;
       lock(drain[FORKER]);
       take_locked();
       unlock(drain[FORKER]);
       if
       :: taken -> queued = false; atomic { home = home | marked; marked = 0 }; taken = false
       :: else
       fi
    :: else -> break
    od;
    ended++
}

init
{
    atomic { run Forker(); run Thief(); run Background() };
    ended == 3
}
