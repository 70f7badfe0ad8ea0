/* Page map entries: what a slab's page map entry promises to who reads it without a lock.
 *
 *   maker: descriptor, slab number, page map entry  ->  it ends: owner, page map entry say orphan  ->  heir: gets its number, adopts: they say heir
 *   a stranger reads the page map entry at any time: it finds the slab, marks its block, and then finds the inbox of the slab's owner
 *
 * Code     `hk_slab_make()` in `slab/slab_life.c`; `hk_slab_at()` in `slab/slab.h`; `hk_page_map_assign()`, `hk_page_map_set()` in
 *          `span/page_map.c`; `hk_page_map_lookup()` in `span/page_map.h`; `hk_owner_register()`, `hk_owner_open()`, `hk_owner_by_id()` in
 *          `slab/owner.c`; `hk_orphans_abandon()`, `hk_orphans_adopt()`, `hk_orphans_collect()` in `slab/orphans.c`;
 *          `hk_slab_hand_to()` in `slab/slab.c`; `hk_remote_free()`, `hk_send()` in `slab/outbox.c`
 * Shows    who sees a page map entry sees the slab's number and descriptor; who sees its owner sees that owner's entry in the table; a stale
 *          owner leads to a second look, never to a change of a slab that somebody else holds; the block comes home
 * Not      what an address without any block says; several blocks (ending.pml)
 * Threads  3
 * Fault 1, assertion: the page map entry is written before the slab's number
 * Fault 2, assertion: the page map entry is written without a release
 * Fault 3, assertion: the reader has the slab's number from before it read the page map entry
 * Fault 4, assertion: an owner enters itself in the table after it has adopted
 * Fault 5, assertion: an owner that said orphan is not looked at again under the lock
 * Fault 6, end: a refused slab goes to the same owner again, without another look */
#define THREADS 3
#define WORDS 3
#define NUMBER 0     /* chunk.xdescriptor of the slab's unit */
#define DESCRIPTOR 1 /* 1: whole */
#define ENTRY 2      /* the heir's entry in the table of owners */
#include "common.pml"

#define NOBODY 0
#define ORPHAN 1
#define MAKER 2
#define HEIR 3
#define CLOSED 2

byte route = NOBODY, owner = NOBODY;
byte inbox[4] = CLOSED; /* 1: the slab is in it */
bool marked;
byte registry = FREE, owners = FREE;
bool listed, home;
byte ended;

inline map_route_all(to)
{
    atomic {
#if FAULT != 2
        release();
#endif
        route = to
    }
}

inline map_assign(to)
{
#if FAULT == 1
    map_route_all(to);
    store(NUMBER, 1)
#else
    store(NUMBER, 1);
    map_route_all(to)
#endif
}

inline hand_to(to)
{
    atomic { release(); owner = to };
    map_route_all(to)
}

inline collect(holder)
{
    assert(holder && marked && !home);
    home = true
}

inline registry_collect()
{
    lock(registry);
    assert(load(DESCRIPTOR));
    done = (route == ORPHAN);
#if FAULT == 5
    done = true;
#endif
    if
    :: done -> collect(route == ORPHAN); listed = true
    :: else
    fi;
    unlock(registry)
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

/* Looks again as soon as there may be something else to see. */
inline send()
{
    seen = owner;
    do
    :: assert(seen != NOBODY);
       if
       :: seen == ORPHAN -> registry_collect()
       :: else -> inbox_push(seen)
       fi;
       if
       :: done -> break
       :: else
       fi;
#if FAULT == 6
       seen == ORPHAN || inbox[seen] != CLOSED
#else
       atomic { seen == ORPHAN || inbox[seen] != CLOSED || owner != seen; seen = owner }
#endif
    od
}

/* Its end: the inbox is closed, the slab let go of, and then what came at the last moment is sent on. */
inline end_owner(me)
{
    if
    :: atomic { inbox[me] == 1 -> inbox[me] = 0 };
       if
       :: owner == me -> collect(route == me)
       :: else -> send(); done = false
       fi
    :: true
    fi;
    atomic { rest = (inbox[me] == 1); inbox[me] = CLOSED };
    lock(registry);
    if
    :: route == me -> hand_to(ORPHAN); listed = true
    :: else
    fi;
    unlock(registry);
    if
    :: rest -> send()
    :: else
    fi
}

/* It made the slab, gave one block of it to the program, and ends. */
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

inline registry_adopt()
{
    lock(registry);
    if
    :: listed -> listed = false; hand_to(HEIR)
    :: else
    fi;
    unlock(registry)
}

proctype Heir()
{
    bool rest, done;
    byte seen;
#if FAULT != 4
    owner_register();
#endif
    inbox[HEIR] = 0;
    registry_adopt();
#if FAULT == 4
    owner_register();
#endif
    end_owner(HEIR);
    ended++
}

/* Frees the block, once it has it; how it got it orders nothing. */
proctype Stranger()
{
    bool done, number;
    byte seen;
#if FAULT == 3
    number = load(NUMBER);
#endif
    route != NOBODY;
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
    assert(home && route == ORPHAN && owner == ORPHAN && listed)
}
