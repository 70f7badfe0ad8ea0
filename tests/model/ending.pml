/* Ending: a thread ends while others free its blocks and adopt its slab; its number serves another thread.
 *
 *   first: drains, empties its bin, closes its inbox, abandons the slab, drains again   second: a new thread with the same number
 *   heir: adopts the slab if it finds it, drains, ends      stranger: marks, counts, and queues the slab with its previous owner
 *
 * Code     `hk_tcache_begin()` in `tcache/tcache.c`, `hk_tcache_end()` in `tcache/ending.c`, `hk_drain_all()`, `take_back()` in `tcache/drain.c`; `hk_slab_heap_collect()`,
 *          `hk_slab_heap_abandon()` in `slab/slab_heap.c`; `hk_inbox_push()`, `hk_inbox_take()`, `hk_inboxes_close()`,
 *          `hk_owner_open()` in `slab/owner.c`; `hk_outbox_put()`, `hk_send()`, `hk_remote_free()` in `slab/outbox.c`;
 *          `hk_remote_mark()`, `hk_remote_count()`, `hk_remote_collect()` in `slab/remote.c`; `hk_abandoned_add()`,
 *          `hk_abandoned_adopt()`, `hk_abandoned_collect()`, `keep_and_unlock()` in `slab/abandoned.c`; `hk_slab_hand_to()` in `slab/slab.c`, `hk_slab_release()` in `slab/slab_life.c`
 * Shows    every block returns to its slab, once; only the slab's holder changes it; a slab is in at most one queue, and in
 *          none that no thread opens again; in the end it is released, once, and no thread touches it afterwards; no thread
 *          waits forever
 * Not      the order of stores (handover.pml, page_map_entries.pml); thieves (steal.pml)
 * Threads  3
 * Fault 1, assertion: closing drops the slabs that were queued last
 * Fault 2, assertion: slabs in the inbox at its closing are not sent on
 * Fault 3, assertion: no drain follows after the slab is abandoned
 * Fault 4, assertion: a thread takes every slab in its inbox for its own
 * Fault 5, assertion: the inbox of an ended thread stays open
 * Fault 6, assertion: a refused slab is queued nowhere
 * Fault 7, end: after a refusal, the thread waits for the inbox to open, and does not read the slab's owner again
 * Fault 8, assertion: an abandoned slab is released as soon as all its blocks are free */
#include "common.pml"

#define NOBODY 0
#define ABANDONED 1
#define ENDING 2
#define HEIR 3
/* Blocks 0 and 1 are with the program, 2 is in the first thread's bin. */
#define ALL 7
#define CLOSED 2
#define BIT(n) (1 << (n))
#define COUNT(bits) (((bits) & 1) + ((bits) / 2 & 1))

byte owner = ENDING;
byte bits;              /* free in the slab */
byte marked;
short counted;
bool queued;            /* a thread is about to queue it, or it is in an inbox or a backlog */
byte inbox[4] = CLOSED; /* 1: the slab is in it */
bool backlog[4], pending[4];
byte abandoned_lock = FREE;
bool listed;
byte released, ended;

#define IS_IDLE (bits == ALL && !queued && counted == 0)
#define PLACES ((inbox[ENDING] == 1) + (inbox[HEIR] == 1) + backlog[ENDING] + backlog[HEIR])

inline list_abandoned_locked()
{
    atomic {
#if FAULT == 8
        all_free = (bits == ALL);
#else
        all_free = IS_IDLE;
#endif
        listed = (!all_free && bits != 0)
    }
}

inline release_if_all_free()
{
    if
    :: all_free -> atomic { assert(bits == ALL && owner == ABANDONED); owner = NOBODY; released++; all_free = false }
    :: else
    fi
}

/* By the slab's holder, which took it out of a queue. */
inline remote_collect(holder)
{
    atomic { assert(holder && queued); queued = false };
    atomic { got = marked; marked = 0 };
    atomic { assert(holder && !(bits & got)); bits = bits | got };
    atomic { counted = counted - COUNT(got); got = 0 }
}

inline abandoned_collect()
{
    lock(abandoned_lock);
    done = (owner == ABANDONED);
    if
    :: done -> remote_collect(holds(abandoned_lock)); list_abandoned_locked()
    :: else
    fi;
    unlock(abandoned_lock);
    release_if_all_free()
}

inline inbox_push(to)
{
    atomic {
        done = (inbox[to] != CLOSED);
        assert(PLACES == 0 && queued);
        if
        :: done -> inbox[to] = 1
        :: else
        fi
    };
    if
    :: done -> pending[to] = true
    :: else
    fi
}

inline send()
{
    seen = owner;
    do
    :: assert(seen != NOBODY);
       if
       :: seen == ABANDONED -> abandoned_collect()
       :: else -> inbox_push(seen)
       fi;
       if
       :: done -> break
       :: else
       fi;
#if FAULT == 6
       break;
#elif FAULT == 7
       seen == ABANDONED || inbox[seen] != CLOSED
#else
       atomic { seen == ABANDONED || inbox[seen] != CLOSED || owner != seen; seen = owner }
#endif
    od;
    atomic { done = false; seen = 0 }
}

inline inbox_take(me)
{
    if
    :: !backlog[me] ->
       pending[me] = false;
       atomic {
           if
           :: inbox[me] != CLOSED -> backlog[me] = inbox[me]; inbox[me] = 0
           :: else
           fi
       }
    :: else
    fi;
    atomic { taken = backlog[me]; backlog[me] = false }
}

/* Only its owner abandons a slab. */
inline drain_all(me)
{
    do
    :: pending[me] ->
       inbox_take(me);
       if
       :: !taken
#if FAULT == 4
       :: taken -> remote_collect(owner == me)
#else
       :: taken && owner == me -> remote_collect(owner == me)
       :: taken && owner != me -> send()
#endif
       fi;
       taken = false
    :: else -> break
    od
}

inline inboxes_close(me)
{
#if FAULT == 1
    inbox[me] = CLOSED
#else
    atomic { taken = (inbox[me] == 1); inbox[me] = CLOSED; backlog[me] = backlog[me] | taken };
#if FAULT != 2
    pending[me] = (pending[me] || taken);
#endif
    taken = false
#endif
}

inline abandoned_abandon()
{
    lock(abandoned_lock);
    owner = ABANDONED;
    list_abandoned_locked();
    unlock(abandoned_lock);
    release_if_all_free()
}

inline abandoned_adopt(me)
{
    if
    :: listed ->
       lock(abandoned_lock);
       if
       :: listed -> atomic { listed = false; owner = me }
       :: else
       fi;
       unlock(abandoned_lock)
    :: else
    fi
}

inline cache_end(me)
{
    drain_all(me);
#if FAULT != 5
    inboxes_close(me);
#endif
    if
    :: owner == me -> abandoned_abandon()
    :: else
    fi;
#if FAULT != 3
    drain_all(me)
#endif
}

#define THREAD \
    byte seen, got; \
    bool done, taken, all_free

proctype Ending()
{
    THREAD;
    drain_all(ENDING);
    atomic { assert(owner == ENDING); bits = bits | BIT(2) };
    cache_end(ENDING);
    if
    :: inbox[ENDING] = 0; /* another thread begins */
       abandoned_adopt(ENDING);
       cache_end(ENDING)
    :: true               /* the number waits in the pool */
    fi;
    ended++
}

proctype Heir()
{
    THREAD;
    inbox[HEIR] = 0;
    abandoned_adopt(HEIR);
    cache_end(HEIR);
    ended++
}

inline free_remote(block)
{
    atomic { assert(owner != NOBODY && !(marked & BIT(block))); marked = marked | BIT(block) };
    atomic { assert(owner != NOBODY); counted++; taken = !queued; queued = true };
    if
    :: taken -> taken = false; send()
    :: else
    fi
}

/* One by one, or both in one word. */
proctype Stranger()
{
    THREAD;
    if
    :: free_remote(0);
       free_remote(1)
    :: atomic { marked = 3 };
       atomic { assert(owner != NOBODY); counted = counted + 2; taken = !queued; queued = true };
       if
       :: taken -> taken = false; send()
       :: else
       fi
    fi;
    ended++
}

init
{
    atomic { inbox[ENDING] = 0; run Ending(); run Heir(); run Stranger() };
    ended == 3;
    assert(released == 1 && bits == ALL && marked == 0 && !queued && counted == 0);
    assert(inbox[ENDING] != 1 && inbox[HEIR] != 1 && !backlog[ENDING] && !backlog[HEIR])
}
