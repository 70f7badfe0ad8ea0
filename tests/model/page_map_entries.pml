/* Page map entries: the promises of a slab's page map entry to a thread that reads it without a lock.
 *
 *   maker: descriptor, slab number, page map entry -> ends: owner and entry name no owner -> heir: gets its number, adopts: they name
 *   the heir     stranger: reads the entry at any time, finds the slab, marks its block, finds the inbox of the slab's owner
 *
 * Code     `hk_slab_make()` in `slab/slab_life.c`; `hk_slab_at()` in `slab/slab.h`; `hk_page_map_assign()`, `hk_page_map_set()` in
 *          `span/page_map.c`; `hk_page_map_lookup()` in `span/page_map.h`; `hk_owner_register()`, `hk_owner_open()`, `hk_owner_by_id()` in
 *          `slab/owner.c`; `hk_abandoned_add()`, `hk_abandoned_adopt()`, `hk_abandoned_collect()` in `slab/abandoned.c`;
 *          `hk_slab_hand_to()` in `slab/slab.c`; `hk_remote_free()`, `hk_send()` in `slab/outbox.c`
 * Shows    a thread that sees a page map entry sees the slab's number and descriptor; a thread that sees its owner sees that
 *          owner in the table; a stale owner leads to a second read, never to a change of a slab that another thread holds;
 *          the block comes back
 * Not      addresses without a block; several blocks (ending.pml)
 * Threads  3
 * Fault 1, assertion: the page map entry is written before the slab's number
 * Fault 2, assertion: the page map entry is written without a release
 * Fault 3, assertion: the reader reads the slab's number before the page map entry
 * Fault 4, assertion: an owner enters itself in the table after it has adopted
 * Fault 5, assertion: an entry without an owner is not read again under the lock
 * Fault 6, end: a refused slab is sent to the same owner without a second read */
#define THREADS 3
#define WORDS 3
#define NUMBER 0     /* the chunk's descriptor word of the slab's slice */
#define DESCRIPTOR 1 /* 1: whole */
#define ENTRY 2      /* the heir's entry in the table of owners */
#include "common.pml"

#define NOBODY 0
#define ABANDONED 1
#define MAKER 2
#define HEIR 3
#define CLOSED 2

byte entry = NOBODY, owner = NOBODY;
byte inbox[4] = CLOSED; /* 1: the slab is in it */
bool marked;
byte abandoned_lock = FREE, owners = FREE;
bool listed, home;
byte ended;

inline map_entry_all(to)
{
    atomic {
#if FAULT != 2
        release();
#endif
        entry = to
    }
}

inline map_assign(to)
{
#if FAULT == 1
    map_entry_all(to);
    store(NUMBER, 1)
#else
    store(NUMBER, 1);
    map_entry_all(to)
#endif
}

inline hand_to(to)
{
    atomic { release(); owner = to };
    map_entry_all(to)
}

inline collect(holder)
{
    assert(holder && marked && !home);
    home = true
}

inline abandoned_collect()
{
    lock(abandoned_lock);
    assert(load(DESCRIPTOR));
    done = (entry == ABANDONED);
#if FAULT == 5
    done = true;
#endif
    if
    :: done -> collect(entry == ABANDONED); listed = true
    :: else
    fi;
    unlock(abandoned_lock)
}

inline inbox_push(to)
{
    assert(to != HEIR || load(ENTRY));
    atomic {
        done = (inbox[to] != CLOSED);
        if
        :: done -> inbox[to] = 1
        :: else
        fi
    }
}

/* Reads again as soon as the value may have changed. */
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
       seen == ABANDONED || inbox[seen] != CLOSED
#else
       atomic { seen == ABANDONED || inbox[seen] != CLOSED || owner != seen; seen = owner }
#endif
    od
}

/* Its end: closes the inbox, abandons the slab, then sends on the slabs that were queued last. */
inline end_owner(me)
{
    if
    :: atomic { inbox[me] == 1 -> inbox[me] = 0 };
       if
       :: owner == me -> collect(entry == me)
       :: else -> send(); done = false
       fi
    :: true
    fi;
    atomic { rest = (inbox[me] == 1); inbox[me] = CLOSED };
    lock(abandoned_lock);
    if
    :: entry == me -> hand_to(ABANDONED); listed = true
    :: else
    fi;
    unlock(abandoned_lock);
    if
    :: rest -> send()
    :: else
    fi
}

/* Has made the slab and handed out one block of it; ends. */
proctype Maker()
{
    bool rest, done;
    byte seen;
    inbox[MAKER] = 0;
    store(DESCRIPTOR, 1);
    owner = MAKER;
    map_assign(MAKER);
    end_owner(MAKER);
    ended++
}

inline owner_register()
{
    lock(owners);
    store(ENTRY, 1);
    unlock(owners)
}

inline abandoned_adopt()
{
    lock(abandoned_lock);
    if
    :: listed -> listed = false; hand_to(HEIR)
    :: else
    fi;
    unlock(abandoned_lock)
}

proctype Heir()
{
    bool rest, done;
    byte seen;
#if FAULT != 4
    owner_register();
#endif
    inbox[HEIR] = 0;
    abandoned_adopt();
#if FAULT == 4
    owner_register();
#endif
    end_owner(HEIR);
    ended++
}

/* Frees the block once it has it; receiving the block synchronizes with no store. */
proctype Stranger()
{
    bool done, number;
    byte seen;
#if FAULT == 3
    number = load(NUMBER);
#endif
    entry != NOBODY;
#if FAULT != 3
    number = load(NUMBER);
#endif
    assert(number && load(DESCRIPTOR));
    marked = true;
    send();
    ended++
}

init
{
    atomic { run Maker(); run Heir(); run Stranger(); run Memory() };
    ended == THREADS;
    assert(home && entry == ABANDONED && owner == ABANDONED && listed)
}
