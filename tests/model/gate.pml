/* Gate: HAKMEM starts, once, whoever calls first; and how its policy becomes known to all: the options, the tables and the map
 * are written by one thread at start and read by the others' hit paths without a lock. There is no later change of policy.
 *
 * Code     `hk_life_started()` in `runtime/start.h`; `hk_start()`, `start_locked()`, `step_options()`, `step_lists()` in
 *          `runtime/start.c`; `hk_page_map_init()` in
 *          `span/page_map.c`; `hk_window_open()`, `show_window()` in `span/page_map.c`; `hk_gate_open()`, `hk_hot_shut()` in `tcache/hit.c`, `hk_tcache_begin()` in `tcache/tcache.c`; `hk_hit_malloc()`, `hk_hit_free()` in `tcache/hit.h`
 * Shows    each step of starting is taken once, also when one is refused at first; who passes the gate finds what he reads
 *          behind it; who sees that HAKMEM has started sees all of it
 * Not      calls before relocation (the bootstrap arena); the loads are acquires by the processor's rules, as hit.h says. That hk_start_done is
 *          stored with a release decides only for what the slow path reads without the lock: the largest size with a class, and
 *          whether calls are watched; the gate's own releases come after all else
 * Threads  3
 * Fault 1, assertion: addresses may pass before the gate has the map
 * Fault 2, assertion: the gate's stores are no releases
 * Fault 3, assertion: the empty fronts are written after the gate has opened
 * Fault 4, assertion: the steps are taken without the lock
 * Fault 5, assertion: it says that it has started before all steps are taken
 * Fault 6, assertion: free reads the gate's map before it asks whether it may
 * Fault 7, assertion: a step that was refused counts as taken */
#define THREADS 3
#define STEPS 3
#define WORDS 7
/* What the steps write, one after the other; the last, step_lists(), writes FRONTS, the gate, and the window, which is free's gate. */
#define OPTIONS 0
#define MAP 1
#define FRONTS 2
#define GATE_ROUTES 3
#define GATE_ADDRESSES 4
#define GATE_SIZES 5
#define STARTED 6
#include "common.pml"

byte life = FREE;
byte steps, ended;
bool taken[STEPS];
bool refused; /* the system refuses once, or never */

inline store_release(at, value)
{
    atomic {
#if FAULT != 2
        release();
#endif
        store(at, value)
    }
}

inline gate_open()
{
#if FAULT != 3
    store(FRONTS, 1);
#endif
    routes = load(MAP);
#if FAULT == 1
    store_release(GATE_ADDRESSES, 1);
    store_release(GATE_ROUTES, routes);
#else
    store_release(GATE_ROUTES, routes);
    store_release(GATE_ADDRESSES, 1);
#endif
    store_release(GATE_SIZES, 1);
#if FAULT == 3
    store(FRONTS, 1)
#endif
}

/* All but the last can be refused. */
inline start_locked()
{
    do
    :: steps < STEPS ->
       if
       :: atomic {
           steps < STEPS - 1 && !refused ->
           refused = true;
#if FAULT == 7
           steps++
#else
           break
#endif
          }
       :: assert(!taken[steps]);
          taken[steps] = true;
          if
          :: steps == STEPS - 1 -> gate_open()
          :: else -> store(steps, 1)
          fi;
          steps++
       fi
    :: else -> break
    od
}

inline life_started()
{
    if
    :: load(STARTED) -> started = true
    :: else ->
#if FAULT == 4
       skip;
#else
       lock(life);
#endif
#if FAULT == 5
       store(STARTED, true);
#endif
       start_locked();
       started = (steps == STEPS);
       atomic { release(); store(STARTED, started) };
#if FAULT != 4
       unlock(life)
#endif
    fi
}

inline cache_begin()
{
    assert(load(OPTIONS) && load(MAP) && load(FRONTS))
}

/* A pointer of whatever allocator. */
inline hit_free()
{
#if FAULT == 6
    routes = load(GATE_ROUTES);
#endif
    if
    :: load(GATE_ADDRESSES) ->
#if FAULT != 6
       routes = load(GATE_ROUTES);
#endif
       assert(routes)
    :: else
    fi;
    routes = 0
}

inline hit_malloc()
{
    if
    :: load(GATE_SIZES) -> assert(load(FRONTS))
    :: else
    fi
}

proctype Thread()
{
    bool started, routes;
    do
    :: !started ->
       if
       :: true -> hit_free()
       :: true -> hit_malloc()
       fi;
       life_started()
    :: else -> break
    od;
    cache_begin();
    hit_free();
    hit_malloc();
    atomic { started = false; ended++ }
}

init
{
    atomic { run Thread(); run Thread(); run Thread(); run Memory() };
    ended == THREADS;
    assert(steps == STEPS)
}
