/* Gate: HAKMEM starts once, whichever thread calls first. One thread writes options, tables and the page map at start; the others' hit
 * paths read them without a lock. The policy of the hit path does not change later.
 *
 * Code     `hk_started()` in `runtime/lifecycle.h`; `hk_start()`, `step_options()`, `step_lists()` in
 *          `runtime/lifecycle.c`; `hk_page_map_init()` in
 *          `span/page_map.c`; `hk_window_open()`, `show_window()` in `span/page_map.c`; `hk_gate_open()`, `hk_cacheless_shut()` in `tcache/cacheless.c`, `hk_tcache_begin()` in `tcache/tcache.c`; `hk_hit_malloc()`, `hk_hit_free()` in `tcache/hit.h`
 * Shows    each step of the start is taken once, also after a refusal; a thread that passes the gate finds all data behind
 *          it; a thread that sees HAKMEM started sees the whole start
 * Not      calls before relocation (the bootstrap arena). The loads are acquires by the rules of the processor, see hit.h.
 *          The release store of hk_start_done matters only for data that the slow path reads without the lock: the largest
 *          size with a class, and whether hooks are on; the releases of the gate come after all other stores
 * Threads  3
 * Fault 1, assertion: addresses pass before the gate has the page map
 * Fault 2, assertion: the stores of the gate are no releases
 * Fault 3, assertion: the empty tcaches are written after the gate is open
 * Fault 4, assertion: the steps are taken without the lock
 * Fault 5, assertion: started is stored before all steps are taken
 * Fault 6, assertion: free reads the window before it checks the gate
 * Fault 7, assertion: a refused step counts as taken */
#define THREADS 3
#define STEPS 3
#define WORDS 7
/* The words that the steps write, in order; hk_page_map_init() also writes the window, but not the addresses that are hits, which are free's
 * gate; the last step, step_lists(), writes FRONTS, the gate, and these addresses. */
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
bool refused; /* refusals by the system: one or none */

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
    store_release(GATE_ADDRESSES, 1);
#if FAULT == 1
    store_release(GATE_ROUTES, 1);
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
          :: steps == MAP ->
             store(MAP, 1);
#if FAULT != 1
             store_release(GATE_ROUTES, 1)
#endif
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

/* A pointer of any allocator. */
inline hit_free()
{
#if FAULT == 6
    entries = load(GATE_ROUTES);
#endif
    if
    :: load(GATE_ADDRESSES) ->
#if FAULT != 6
       entries = load(GATE_ROUTES);
#endif
       assert(entries)
    :: else
    fi;
    entries = 0
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
    bool started, entries;
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
