/* Bystanders: what fork finds others doing beside the forking thread's memory: a thief is at its backlog, the background thread at
 * its shelves; and who waits for whom then.
 *
 *   forker: its inbox closed, sweep lock, drain lock, copy; parent: locks and inbox open again; child: locks open by force
 *   thief: takes from itself, steals from the forker, gives back: its own under the shelves lock, the forker's by delivery
 *   background: each owner's shelves in turn, under the sweep lock and the shelves lock
 *
 * Code     `fork_prepare()`, `fork_parent()`, `fork_child()` in `api/life.c`; `hk_caches_fork_prepare()`, `reopen_inboxes()`,
 *          `steal()`, `unpack()` in `front/cache.c`; `hk_owners_fork_prepare()`, `hk_owners_fork_parent()`,
 *          `hk_owners_fork_child()`, `close_all_but()`, `hk_inboxes_close()`, `hk_inbox_steal()`, `take_locked()` in
 *          `slab/owner.c`; `hk_giveback_fork_prepare()`, `sweep_some()`, `hk_giveback_in_background()` in `tiers/giveback.c`;
 *          `hk_blocks_give()`, `hk_blocks_sweep_begin()`, `hk_blocks_sweep()` in `tiers/blocks.c`; `hk_deliver()` in
 *          `slab/outbox.c`
 * Shows    nobody waits for who waits for him; in the child the forker's backlog and shelves are whole, whatever was under way, and
 *          no lock is held by a thread that it does not have
 * Not      the other locks, posts (fork.pml), ends (parting.pml), what the background thread does to slabs (sweep.pml)
 * Threads  3
 * Fault 1, end: what is not the thread's own is delivered under its shelves lock
 * Fault 2, end: a thief delivers before it gives up the drain lock
 * Fault 3, assertion: fork does not take the forking thread's drain lock
 * Fault 4, assertion: the child leaves the drain lock as fork took it
 * Fault 5, assertion: the child leaves the locks of other threads' owners as they were
 * Fault 6, assertion: the child leaves its own shelves lock as it was
 * Fault 7, assertion: fork does not wait for the background thread */
#include "common.pml"

#define FORKER 1
#define THIEF 2
#define CLOSED 9
#define BIT(n) (1 << (n))

/* Blocks 1 and 2 are the forker's; each is a parcel, and both are in its inbox at first. 0 is NULL. */
byte next[3];
byte inbox = 1, backlog;
bool pending = true;
byte stolen;               /* with the thief */
byte home;
byte sweep_lock = FREE;
byte drain[3] = FREE, shelves[3] = FREE; /* locks, by owner */
byte first[3], last[3];    /* two words of an owner's shelves */
byte ended;

/* The child's copies: each on a page of its own. */
byte c_next[3], c_backlog, c_drain[3], c_shelves[3], c_first, c_last;
bool c_pending;
short copied;

inline post()
{
    head = inbox;
    do
    :: head == CLOSED -> inbox != CLOSED; head = inbox
    :: else ->
       next[block] = head;
       atomic {
           if
           :: inbox == head -> inbox = block; stolen = stolen & ~BIT(block); break
           :: else -> head = inbox
           fi
       }
    od;
    if
    :: head == 0 -> pending = true
    :: else
    fi;
    head = 0
}

/* One or two, from `got` on. */
inline take_locked()
{
    if
    :: backlog == 0 ->
       pending = false;
       if
       :: inbox != CLOSED -> atomic { backlog = inbox; inbox = 0 }
       :: else
       fi
    :: else
    fi;
    got = backlog;
    if
    :: got != 0 ->
       tail = got;
       if
       :: next[tail] != 0 -> tail = next[tail]
       :: true
       fi;
       atomic {
           backlog = next[tail];
           stolen = (_pid == THIEF -> stolen | BIT(got) | BIT(tail) : stolen)
       };
       next[tail] = 0;
       tail = 0;
       if
       :: backlog != 0 -> pending = true
       :: else
       fi
    :: else
    fi
}

inline blocks_give()
{
    lock(shelves[THIEF]);
    first[THIEF]++;
    last[THIEF]++;
#if FAULT == 1
    post();
#endif
    unlock(shelves[THIEF]);
#if FAULT != 1
    post()
#endif
}

inline unpack()
{
    do
    :: got != 0 ->
       atomic { block = got; got = next[got] };
       blocks_give();
       block = 0
    :: else -> break
    od
}

inline steal()
{
    if
    :: pending ->
       if
       :: atomic { drain[FORKER] == FREE -> drain[FORKER] = _pid };
          take_locked();
#if FAULT == 2
          unpack();
#endif
          unlock(drain[FORKER])
       :: drain[FORKER] != FREE
       fi
    :: else
    fi;
#if FAULT != 2
    unpack()
#endif
}

/* From its own inbox, in which there is nothing, then from the forker's. */
proctype Thief()
{
    byte got, tail, block, head;
    lock(drain[THIEF]);
    unlock(drain[THIEF]);
    steal();
    ended++
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
    byte owner = FORKER;
    do
    :: owner <= THIEF -> sweep_begin(); sweep_some(); owner++
    :: else -> break
    od;
    atomic { owner = 0; ended++ }
}

inline inbox_close()
{
    lock(drain[FORKER]);
    atomic { got = inbox; inbox = CLOSED };
    if
    :: got != 0 ->
       atomic {
           tail = (next[got] != 0 -> next[got] : got);
           next[tail] = backlog;
           backlog = got;
           tail = 0
       };
       pending = true
    :: else
    fi;
    unlock(drain[FORKER]);
    got = 0
}

inline prepare()
{
    inbox_close();
#if FAULT != 7
    lock(sweep_lock);
#endif
#if FAULT != 3
    lock(drain[FORKER])
#endif
}

#define page(n, from, to) atomic { !(copied & BIT(n)) -> to = from; copied = copied | BIT(n) }

/* In any order. */
inline copy_pages()
{
    do
    :: page(0, backlog, c_backlog)
    :: page(1, pending, c_pending)
    :: atomic { !(copied & BIT(2)) -> c_next[1] = next[1]; c_next[2] = next[2]; copied = copied | BIT(2) }
    :: page(3, drain[FORKER], c_drain[FORKER])
    :: page(4, drain[THIEF], c_drain[THIEF])
    :: page(5, shelves[FORKER], c_shelves[FORKER])
    :: page(6, shelves[THIEF], c_shelves[THIEF])
    :: page(7, first[FORKER], c_first)
    :: page(8, last[FORKER], c_last)
    :: copied == 511 -> break
    od
}

#define REACHED(block) (block == 0 -> 0 : BIT(block))

/* Alone in its process: one step. */
inline child()
{
    d_step {
#if FAULT != 4
        c_drain[FORKER] = FREE;
#endif
#if FAULT != 5
        c_drain[THIEF] = FREE;
        c_shelves[THIEF] = FREE;
#endif
#if FAULT != 6
        c_shelves[FORKER] = FREE;
#endif
        assert(c_drain[FORKER] == FREE && c_drain[THIEF] == FREE);
        assert(c_shelves[FORKER] == FREE && c_shelves[THIEF] == FREE);
        /* What no thief has can be taken. */
        assert(c_backlog == 0 || c_pending);
        assert((REACHED(c_backlog) | REACHED(c_next[c_backlog])) == (6 & ~stolen));
        assert(c_first == c_last);
        c_backlog = 0; c_pending = false; c_next[1] = 0; c_next[2] = 0; c_first = 0; c_last = 0; copied = 0;
        c_drain[FORKER] = 0; c_drain[THIEF] = 0; c_shelves[FORKER] = 0; c_shelves[THIEF] = 0
    }
}

inline parent()
{
#if FAULT != 3
    unlock(drain[FORKER]);
#endif
#if FAULT != 7
    unlock(sweep_lock);
#endif
    inbox = 0
}

/* It forks, and waits for its blocks. */
proctype Forker()
{
    byte got, tail;
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
       atomic {
           do
           :: got != 0 -> home = home | BIT(got); tail = next[got]; got = tail
           :: else -> break
           od
       }
    :: else -> break
    od;
    ended++
}

init
{
    atomic { next[1] = 2; run Forker(); run Thief(); run Background() };
    ended == 3
}
