/* Ending: a thread ends while others free its blocks and adopt its slab; its number serves another thread.
 *
 *   first: drains, empties its bin, closes its inbox, lets go of the slab, drains again   second: a new thread, the same number
 *   heir: adopts what it finds, drains, ends                        stranger: fills a parcel for a route, and sends it later
 *
 * Code     `hk_cache_begin()`, `hk_cache_end()`, `drain_all()`, `unpack()`, `receive()`, `close_inboxes()` in
 *          `front/cache.c`; `hk_blocks_give()` in `tiers/blocks.c`; `hk_inbox_post()`, `hk_inbox_take()`,
 *          `hk_inboxes_hold_any()`, `hk_inbox_close()`, `hk_inbox_open()` in `slab/owner.c`; `hk_outbox_put()`, `send()`, `hk_deliver()`, `post_bare()` in `slab/outbox.c`; `hk_registry_abandon()`,
 *          `hk_registry_adopt()`, `hk_registry_free()`, `list_orphan_locked()` in `slab/registry.c`; `hk_slab_give()`,
 *          `hk_slab_release()` in `slab/slab.c`
 * Shows    every block comes back to its slab, once; only the slab's holder changes it; no parcel stays in an inbox that
 *          nobody opens any more; in the end the slab is released, once; nobody waits for ever
 * Not      the order of stores (handover.pml, routes.pml); an inbox is a set of parcels here
 * Threads  3
 * Fault 1, assertion: closing throws away what came at the last moment
 * Fault 2, assertion: what was in the inbox when it closed is not announced
 * Fault 3, assertion: nothing is drained after the slab was let go of
 * Fault 4, assertion: a thread takes whatever comes for its own
 * Fault 5, assertion: the inbox of an ended thread stays open
 * Fault 6, assertion: a refused parcel is dropped with its blocks
 * Fault 7, end: a refused block waits for its owner's inbox to open, without another look at its route */
#include "common.pml"

#define NOBODY 0
#define ORPHAN 1
#define ENDING 2
#define HEIR 3
/* Blocks are 0, 1 (with the program) and 2 (in the first thread's bin). Bits 0 and 1 of an inbox are bare blocks, bit 2 is a
 * parcel of both. */
#define ALL 7
#define PARCEL 2
#define CLOSED 128
#define BIT(n) (1 << (n))

byte route = ENDING;
byte bits; /* free in the slab */
byte inbox[4] = CLOSED, backlog[4];
bool pending[4];
byte registry = FREE;
bool listed;
byte released, ended;

inline list_orphan_locked()
{
    all_free = (bits == ALL);
    listed = (bits != ALL && bits != 0)
}

inline slab_give(block, holder)
{
    assert(holder && !(bits & BIT(block)));
    bits = bits | BIT(block)
}

inline slab_release()
{
    assert(bits == ALL && route == ORPHAN);
    atomic { route = NOBODY; released++ }
}

inline registry_free(block)
{
    lock(registry);
    done = (route == ORPHAN);
    all_free = false;
    if
    :: done -> slab_give(block, holds(registry)); list_orphan_locked()
    :: else
    fi;
    unlock(registry);
    if
    :: all_free -> slab_release(); all_free = false
    :: else
    fi
}

inline inbox_post(owner, parcel)
{
    atomic {
        first = (inbox[owner] == 0);
        done = (inbox[owner] != CLOSED);
        if
        :: done -> inbox[owner] = inbox[owner] | BIT(parcel)
        :: else
        fi
    };
    if
    :: done && first -> pending[owner] = true
    :: else
    fi;
    first = false
}

inline deliver(block)
{
    seen = route;
    do
    :: assert(seen != NOBODY);
       if
       :: seen == ORPHAN -> registry_free(block)
       :: else -> inbox_post(seen, block)
       fi;
       if
       :: done -> break
       :: else
       fi;
#if FAULT == 7
       seen == ORPHAN || inbox[seen] != CLOSED
#else
       atomic { seen == ORPHAN || inbox[seen] != CLOSED || route != seen; seen = route }
#endif
    od;
    atomic { done = false; seen = 0 }
}

inline inbox_take(me)
{
    if
    :: backlog[me] == 0 ->
       pending[me] = false;
       atomic {
           if
           :: inbox[me] != CLOSED -> backlog[me] = inbox[me]; inbox[me] = 0
           :: else
           fi
       }
    :: else
    fi;
    atomic { got = backlog[me]; backlog[me] = 0 }
}

/* Each block: mine, or delivered. */
inline unpack(me)
{
    atomic {
        if
        :: got & BIT(PARCEL) -> got = 3
        :: else
        fi
    };
    do
    :: got != 0 ->
       block = (got & 1 -> 0 : 1);
       got = got & ~BIT(block);
#if FAULT == 4
       slab_give(block, route == me)
#else
       if
       :: route == me -> slab_give(block, route == me)
       :: else -> deliver(block)
       fi
#endif
    :: else -> break
    od;
    block = 0
}

inline drain_all(me)
{
    do
    :: pending[me] -> inbox_take(me); unpack(me)
    :: else -> break
    od
}

inline inbox_close(me)
{
#if FAULT == 1
    inbox[me] = CLOSED
#else
    atomic { got = inbox[me]; inbox[me] = CLOSED };
#if FAULT != 2
    pending[me] = (pending[me] || got != 0);
#endif
    atomic { backlog[me] = backlog[me] | got; got = 0 }
#endif
}

inline registry_abandon()
{
    lock(registry);
    route = ORPHAN;
    list_orphan_locked();
    unlock(registry);
    if
    :: all_free -> slab_release(); all_free = false
    :: else
    fi
}

inline registry_adopt(me)
{
    if
    :: listed ->
       lock(registry);
       if
       :: listed -> listed = false; route = me
       :: else
       fi;
       unlock(registry)
    :: else
    fi
}

inline cache_end(me)
{
    drain_all(me);
#if FAULT != 5
    inbox_close(me);
#endif
    if
    :: route == me -> registry_abandon()
    :: else
    fi;
#if FAULT != 3
    drain_all(me)
#endif
}

proctype Ending()
{
    byte seen, got, block;
    bool done, first, all_free;
    drain_all(ENDING);
    slab_give(2, route == ENDING);
    cache_end(ENDING);
    if
    :: inbox[ENDING] = 0; /* another thread begins */
       registry_adopt(ENDING);
       cache_end(ENDING)
    :: true               /* the number waits in the pool */
    fi;
    ended++
}

proctype Heir()
{
    byte seen, got, block;
    bool done, first, all_free;
    inbox[HEIR] = 0;
    registry_adopt(HEIR);
    cache_end(HEIR);
    ended++
}

proctype Stranger()
{
    byte to, seen;
    bool done, first, all_free;
    to = route;
    if
    :: to == ORPHAN -> deliver(0); deliver(1)
    :: else ->
       inbox_post(to, PARCEL);
       if
       :: done
       :: else ->
#if FAULT != 6
          deliver(0);
          deliver(1)
#endif
       fi
    fi;
    ended++
}

init
{
    atomic { inbox[ENDING] = 0; run Ending(); run Heir(); run Stranger() };
    ended == 3;
    assert(released == 1 && bits == ALL);
    assert((inbox[ENDING] == CLOSED || inbox[ENDING] == 0) && (inbox[HEIR] == CLOSED || inbox[HEIR] == 0));
    assert(backlog[ENDING] == 0 && backlog[HEIR] == 0)
}
