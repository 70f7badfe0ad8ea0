/* Routes: what a slab's route promises to who reads it without a lock.
 *
 *   maker: descriptor, slab number, route  ->  it ends: route says orphan  ->  heir: gets its number, adopts: route says heir
 *   a stranger reads the route at any time: it finds the slab, and the inbox of whom the route names
 *
 * Code     `hk_slab_make()` in `slab/slab.c`; `hk_slab_at()` in `slab/slab.h`; `hk_map_assign()`, `hk_map_route_all()` in
 *          `span/map.c`; `hk_map_lookup()` in `span/map.h`; `hk_owner_register()`, `hk_owner_open()`, `hk_owner_by_id()` in
 *          `slab/owner.c`; `hk_registry_abandon()`, `hk_registry_adopt()`, `hk_registry_free()`, `hk_slab_hand_to()` in
 *          `slab/registry.c`; `hk_deliver()` in `slab/outbox.c`
 * Shows    who sees a route sees the slab's number and descriptor, and the named owner's entry in the table; a stale route
 *          leads to a second look, never to a change of a slab that somebody else holds; the block comes home
 * Not      what an address without any block says; several blocks (ending.pml)
 * Threads  3
 * Fault 1, assertion: the route is written before the slab's number
 * Fault 2, assertion: the route is written without a release
 * Fault 3, assertion: the reader has the slab's number from before it read the route
 * Fault 4, assertion: an owner enters itself in the table after it has adopted
 * Fault 5, assertion: a route that said orphan is not looked at again under the lock
 * Fault 6, end: a refused block goes to the same owner again, without another look */
#define THREADS 3
#define WORDS 3
#define NUMBER 0     /* super.xslab of the slab's unit */
#define DESCRIPTOR 1 /* 1: whole */
#define ENTRY 2      /* the heir's entry in the table of owners */
#include "common.pml"

#define NOBODY 0
#define ORPHAN 1
#define MAKER 2
#define HEIR 3
#define CLOSED 2

byte route = NOBODY;
byte inbox[4] = CLOSED; /* 1: the block waits in it */
byte registry = FREE, owners = FREE;
bool listed, home;
byte ended;

inline map_route_all(owner)
{
    atomic {
#if FAULT != 2
        release();
#endif
        route = owner
    }
}

inline map_assign(owner)
{
#if FAULT == 1
    map_route_all(owner);
    store(NUMBER, 1)
#else
    store(NUMBER, 1);
    map_route_all(owner)
#endif
}

inline give(holder)
{
    assert(holder && !home);
    home = true
}

inline registry_free()
{
    lock(registry);
    assert(load(NUMBER) && load(DESCRIPTOR));
    done = (route == ORPHAN);
#if FAULT == 5
    done = true;
#endif
    if
    :: done -> give(route == ORPHAN); listed = true
    :: else
    fi;
    unlock(registry)
}

inline inbox_post(owner)
{
    assert(owner != HEIR || load(ENTRY));
    atomic {
        done = (inbox[owner] != CLOSED);
        if
        :: done -> inbox[owner] = 1
        :: else
        fi
    }
}

/* Looks again as soon as there may be something else to see. */
inline deliver()
{
    seen = route;
    do
    :: assert(seen != NOBODY);
#if FAULT != 3
       number = load(NUMBER);
#endif
       assert(number && load(DESCRIPTOR));
       if
       :: seen == ORPHAN -> registry_free()
       :: else -> inbox_post(seen)
       fi;
       if
       :: done -> break
       :: else
       fi;
#if FAULT == 6
       seen == ORPHAN || inbox[seen] != CLOSED
#else
       atomic { seen == ORPHAN || inbox[seen] != CLOSED || route != seen; seen = route }
#endif
    od
}

/* Its end: the inbox is closed, the slab let go of, and then what came at the last moment is delivered. */
inline end_owner(me)
{
    if
    :: atomic { inbox[me] == 1 -> inbox[me] = 0 }; give(route == me)
    :: true
    fi;
    atomic { rest = (inbox[me] == 1); inbox[me] = CLOSED };
    lock(registry);
    if
    :: route == me -> map_route_all(ORPHAN); listed = true
    :: else
    fi;
    unlock(registry);
    if
    :: rest -> deliver()
    :: else
    fi
}

/* It made the slab, gave one block of it to the program, and ends. */
proctype Maker()
{
    bool rest, done, number;
    byte seen;
    inbox[MAKER] = 0;
    store(DESCRIPTOR, 1);
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
    :: listed -> listed = false; map_route_all(HEIR)
    :: else
    fi;
    unlock(registry)
}

proctype Heir()
{
    bool rest, done, number;
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
    deliver();
    ended++
}

init
{
    atomic { run Maker(); run Heir(); run Stranger(); run Memory() };
    ended == THREADS;
    assert(home && route == ORPHAN && listed)
}
