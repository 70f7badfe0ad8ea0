/* Handover: remote frees reach their slab, each once, and the slab is not released while a thread is about to touch it.
 *
 *   two strangers: mark the block, count it, queue the slab if no thread has     the owner: bit, exchange, and slab by slab: unqueue,
 *   claim marked blocks, uncount them; the slab is released if all is free and nothing counted
 *
 * Code     `hk_remote_mark()`, `hk_remote_count()`, `hk_remote_collect()`, `unqueue()`, `claim_word()`, `uncount()` in
 *          `slab/remote.c`; `hk_slab_all_free()` in `slab/remote.h`; `send()` in `slab/outbox.c`; `hk_inbox_push()`,
 *          `take_inbox()`, `take_locked()`, `hk_inbox_take()` in `slab/owner.c`; `take_back()` and `hk_drain_some()` in `tcache/drain.c`;
 *          `hk_slab_heap_collect()` in `slab/slab_heap.c`
 * Shows    no block is lost or claimed twice; the writes of the freeing thread are visible to the thread that claims; a slab
 *          is in at most one queue; it is released when all its blocks are free, and no thread touches it afterwards; the
 *          counts end at 0
 * Not      closed inboxes (ending.pml), thieves and the drain lock (steal.pml), purges by other threads (idle_inboxes.pml).
 *          Here only the owner takes from its inbox: it needs no lock, and a lock would only make more visible
 * Threads  3
 * Fault 1, end: a block is counted before it is marked
 * Fault 2, end: the owner claims before it marks the slab as not queued
 * Fault 3, assertion: a block is marked without a release
 * Fault 4, assertion: counting and queuing are two steps
 * Fault 5, assertion: a slab is released as soon as all its blocks are free
 * Fault 6, end: the inbox is emptied before the bit of its class is cleared
 * Fault 7, end: the bit is set before the slab is in the inbox
 * Fault 8, end: marked blocks are claimed by a load and a store */
#define THREADS 3
#define WORDS 5
#include "common.pml"

/* Slab 1 has blocks 0 and 1, slab 2 block 2. */
#define DATA(block) (block)
#define NEXT(slab) (2 + (slab))
#define SLAB(block) (1 + (block) / 2)
#define ALL(slab) ((slab) == 1 -> 3 : 4)
#define BIT(n) (1 << (n))
#define COUNT(bits) (((bits) & 1) + ((bits) / 2 & 1) + ((bits) / 4 & 1))

byte marked[3], free[3];
bool queued[3], gone[3];
short counted[3];
byte inbox;   /* owner.xinbox[class] */
bool pending; /* the class's bit in owner.xpending */
byte ended;

inline remote_mark()
{
    atomic {
#if FAULT != 3
        release();
#endif
        assert(!gone[slab] && !(marked[slab] & BIT(block)));
        marked[slab] = marked[slab] | BIT(block)
    }
}

inline remote_count()
{
#if FAULT == 4
    atomic { assert(!gone[slab]); release(); counted[slab]++ };
    atomic { assert(!gone[slab]); first = !queued[slab]; queued[slab] = true }
#else
    atomic {
        assert(!gone[slab]);
        release();
        counted[slab]++;
        first = !queued[slab];
        queued[slab] = true
    }
#endif
}

inline inbox_push()
{
    head = inbox;
    do
    :: assert(!gone[slab] && head != slab);
       store(NEXT(slab), head);
#if FAULT == 7
       if
       :: head == 0 -> pending = true
       :: else
       fi;
#endif
       atomic {
           release();
           if
           :: inbox == head -> inbox = slab; break
           :: else -> head = inbox
           fi
       }
    od;
#if FAULT != 7
    if
    :: head == 0 -> pending = true
    :: else
    fi;
#endif
    head = 0
}

proctype Stranger(byte block, last)
{
    byte slab, head;
    bool first;
    do
    :: block <= last ->
       slab = SLAB(block);
       store(DATA(block), 1);
#if FAULT == 1
       remote_count();
       remote_mark();
#else
       remote_mark();
       remote_count();
#endif
       if
       :: first -> inbox_push()
       :: else
       fi;
       block++
    :: else -> break
    od;
    ended++
}

inline take_inbox()
{
#if FAULT == 6
    atomic { chain = inbox; inbox = 0 };
    pending = false
#else
    pending = false;
    atomic { chain = inbox; inbox = 0 }
#endif
}

inline claim()
{
#if FAULT == 8
    got = marked[slab];
    marked[slab] = 0;
#else
    atomic { got = marked[slab]; marked[slab] = 0 };
#endif
    atomic {
        assert(!(got & 1) || load(DATA(0)));
        assert(!(got & 2) || load(DATA(1)));
        assert(!(got & 4) || load(DATA(2)));
        assert(!(free[slab] & got));
        free[slab] = free[slab] | got
    };
    atomic { counted[slab] = counted[slab] - COUNT(got); got = 0 }
}

inline collect()
{
#if FAULT == 2
    claim();
    queued[slab] = false;
#else
    queued[slab] = false;
    claim();
#endif
    atomic {
        if
#if FAULT == 5
        :: free[slab] == ALL(slab) -> gone[slab] = true
#else
        :: free[slab] == ALL(slab) && !queued[slab] && counted[slab] == 0 -> gone[slab] = true
#endif
        :: else
        fi
    }
}

/* Runs only when notified: without a notification it waits forever. */
proctype Owner()
{
    byte chain, slab, got;
    do
    :: !gone[1] || !gone[2] ->
       pending;
       take_inbox();
       do
       :: chain != 0 -> atomic { slab = chain; chain = load(NEXT(slab)) }; collect()
       :: else -> break
       od
    :: else -> break
    od;
    ended == 2;
    assert(counted[1] == 0 && counted[2] == 0 && inbox == 0 && marked[1] == 0 && marked[2] == 0)
}

init { atomic { run Owner(); run Stranger(0, 0); run Stranger(1, 2); run Memory() } }
