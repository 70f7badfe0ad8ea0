/* Purge: free slices lose their pages, outside the lock, while others take and free slices.
 *
 *   purge    the pages go, the addresses stay                 unmap    both go: the kernel may give the addresses to anybody
 *
 * Code     `hk_page_heap_purge()`, `hk_page_heap_purge_oldest()`, `purge_ranges()`, `purge_range_locked()`, `begin_purge()`, `purge_slices()`, `end_purge()`, `hk_page_heap_unmap()`, `unmap_one()`, `disown_free()`, `unmap_slices()`, `own_again()` in `span/purge.c`, `hk_page_heap_count_dirty()`, `hk_chunk_release()`, `hk_chunk_use()` in `span/chunks.c`, `hk_span_alloc()`, `hk_span_free()` in `span/page_heap.c`, `grow_back()`, `grow_on()`, `add_memory()` in `span/heap_growth.c`; `epoch_if_due()` in `decay/decay.c`
 * Shows    no unit loses its pages while somebody uses it; a unit with pages is marked dirty; what the system refuses to take
 *          comes back; the counts of free, dirty and warm units fit whenever the lock is free; an address that was given up is
 *          not touched any more
 * Not      how long units wait, in which order they are taken, huge pages
 * Threads  3
 * Fault 1, assertion: units stay in the free set while their pages go
 * Fault 2, assertion: what the system refused counts as clean
 * Fault 3, assertion: what the system refused does not come back
 * Fault 4, assertion: units are disowned after they were unmapped
 * Fault 5, assertion: a unit in use is not marked dirty
 * Fault 6, assertion: purged units are counted as free while they are taken out
 * Fault 7, assertion: what was given back counts as warm */
#include "common.pml"

#define UNITS 2
#define ALL 3
#define BIT(n) (1 << (n))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1))
#define NOBODY 255
#define OURS 254

byte owned = ALL, free = ALL, dirty = ALL, free_slices = 2, dirty_units = 2, warm = 2;
byte runs = FREE, purging = FREE;
byte ended;

/* What is so, beyond what HAKMEM knows: who has the address, whether there are pages, what is in use. */
byte address[UNITS] = OURS;
bool pages[UNITS] = true;
byte in_use;

inline unlock_checked()
{
    assert(free_slices == COUNT(free) && dirty_units == COUNT(free & dirty) && warm == COUNT(dirty));
    assert((free & ~owned) == 0 && (in_use & free) == 0);
    assert(!pages[0] || address[0] != OURS || !(free & 1) || (dirty & 1));
    assert(!pages[1] || address[1] != OURS || !(free & 2) || (dirty & 2));
    unlock(runs)
}

inline release_slices(units)
{
    free_slices = free_slices + COUNT(units);
    dirty_units = dirty_units + COUNT(units & dirty);
    free = free | (units)
}

inline use_slices(units)
{
    free_slices = free_slices - COUNT(units);
    dirty_units = dirty_units - COUNT(units & dirty);
    free = free & ~(units);
#if FAULT != 5
    warm = warm + COUNT((units) & ~dirty);
    dirty = dirty | (units)
#endif
}

/* Maps a unit where the kernel has room. */
inline hk_arena_grow()
{
    if
    :: atomic { address[0] == NOBODY -> address[0] = OURS; unit = 0; pages[0] = false }
    :: atomic { address[1] == NOBODY -> address[1] = OURS; unit = 1; pages[1] = false }
    :: atomic { address[0] != NOBODY && address[1] != NOBODY -> unit = UNITS }
    fi;
    if
    :: unit < UNITS ->
       assert(!(owned & BIT(unit)));
       owned = owned | BIT(unit);
       dirty = dirty & ~BIT(unit);
       free = free | BIT(unit);
       free_slices++
    :: else
    fi
}

inline run_alloc()
{
    lock(runs);
    if
    :: free == 0 -> hk_arena_grow()
    :: else
    fi;
    unit = UNITS;
    atomic {
        if
        :: free & 1 -> unit = 0
        :: free & 2 -> unit = 1
        :: free == 0
        fi
    };
    if
    :: unit < UNITS -> atomic { use_slices(BIT(unit)); assert(!(in_use & BIT(unit))); in_use = in_use | BIT(unit) }
    :: else
    fi;
    unlock_checked()
}

inline run_free()
{
    lock(runs);
    atomic { in_use = in_use & ~BIT(unit); release_slices(BIT(unit)) };
    unlock_checked()
}

/* The program fills what it is given, and finds it again as it was. */
proctype User()
{
    byte unit, turn;
    do
    :: turn < 2 ->
       run_alloc();
       if
       :: unit < UNITS ->
          assert(address[unit] == OURS);
          pages[unit] = true;
          assert(pages[unit] && address[unit] == OURS);
          run_free()
       :: else
       fi;
       turn++
    :: else -> break
    od;
    atomic { unit = 0; turn = 0; ended++ }
}

inline begin_purge()
{
    lock(runs);
    atomic {
        due = (keeps -> free & dirty : free);
#if FAULT == 1
        skip
#elif FAULT == 6
        free = free & ~due
#else
        free_slices = free_slices - COUNT(due);
        dirty_units = dirty_units - COUNT(due & dirty);
        free = free & ~due
#endif
    };
#if FAULT != 4
    if
    :: !keeps -> atomic { warm = warm - COUNT(due & dirty); owned = owned & ~due; dirty = dirty & ~due }
    :: else
    fi;
#endif
    unlock_checked()
}

/* Each unit by a call of its own; the system may refuse. An address that was unmapped may be somebody else's at once. */
inline purge_slices()
{
    gone = 0;
    unit = 0;
    do
    :: unit < UNITS && (due & BIT(unit)) ->
       if
       :: atomic { keeps -> pages[unit] = false; gone = gone | BIT(unit) }
       :: atomic {
           !keeps ->
           assert(address[unit] == OURS && !(in_use & BIT(unit)));
           pages[unit] = false; address[unit] = NOBODY; gone = gone | BIT(unit)
          }
       :: true
       fi;
       unit++
    :: unit < UNITS && !(due & BIT(unit)) -> unit++
    :: else -> break
    od;
    unit = 0
}

inline end_purge()
{
    lock(runs);
    if
    :: keeps ->
#if FAULT == 2
       warm = warm - COUNT(due & dirty);
       dirty = dirty & ~due;
#else
#if FAULT != 7
       warm = warm - COUNT(gone & dirty);
#endif
       dirty = dirty & ~gone;
#endif
#if FAULT == 1
       dirty_units = COUNT(free & dirty)
#elif FAULT == 3
       release_slices(due & gone)
#else
       release_slices(due)
#endif
    :: else ->
#if FAULT == 1
       warm = warm - COUNT(gone & dirty);
       owned = owned & ~gone; dirty = dirty & ~gone; free = free & ~gone;
       free_slices = COUNT(free); dirty_units = COUNT(free & dirty)
#elif FAULT == 4
       warm = warm - COUNT(gone & dirty);
       owned = owned & ~gone; dirty = dirty & ~gone;
       release_slices(due & ~gone)
#elif FAULT == 3
       skip
#else
       owned = owned | (due & ~gone);
       dirty = dirty | (due & ~gone);
       warm = warm + COUNT(due & ~gone);
       release_slices(due & ~gone)
#endif
    fi;
    unlock_checked()
}

/* `keeps`: a purge, which keeps the addresses; else they are unmapped. A range at a time, as long as one is due. When time has come it
 * leaves to another who purges; all at once, it waits. */
inline runs_purge(wait)
{
    again = true;
    do
    :: again ->
       if
       :: lock(purging); got = true
       :: atomic { !(wait) && purging != FREE -> got = false }
       fi;
       if
       :: got ->
          begin_purge();
          purge_slices();
          end_purge();
          unlock(purging)
       :: else
       fi;
       atomic { again = (got && due != 0 && gone == due); due = 0; gone = 0; got = false }
    :: else -> break
    od
}

/* Afterwards it uses memory itself. */
proctype Purger()
{
    byte unit, due, gone;
    bool got, keeps, again;
    if
    :: keeps = true
    :: keeps = false
    fi;
    runs_purge(false);
    run_alloc();
    if
    :: unit < UNITS -> pages[unit] = true; run_free()
    :: else
    fi;
    keeps = !keeps;
    runs_purge(true);
    atomic { keeps = false; ended++ }
}

init
{
    atomic {
        run User(); run Purger(); run Purger()
    };
    ended == 3;
    assert(in_use == 0 && owned == free);
    assert((!(owned & 1) || address[0] == OURS) && (!(owned & 2) || address[1] == OURS));
    assert((address[0] != OURS || (owned & 1)) && (address[1] != OURS || (owned & 2)))
}
