/* Purge: free slices lose their pages, without the lock, while others take and free slices.
 *
 *   purge    the pages go, the addresses stay                 unmap    both go: the kernel may give the addresses to any mapping
 *
 * Code     `hk_page_heap_purge()`, `purge_ranges_locked()`, `begin_purge()`, `hk_span_purge()`, `end_purge()`, `hk_page_heap_unmap()`, `unmap_one()`, `disown_free()` in `span/purge.c`, `hk_page_heap_count_dirty()`, `hk_chunk_release()`, `hk_chunk_use()` in `span/chunks.c`, `hk_span_alloc()`, `hk_span_free()` in `span/page_heap.c`, `grow_back()`, `grow_on()`, `add_memory()` in `span/chunks.c`; `epoch_if_due()` in `decay/decay.c`
 * Shows    no slice is purged while in use; a slice that may be resident is marked dirty; slices that the system refused to
 *          purge are free again; the counts of free and dirty slices fit whenever the lock is free; an unmapped address is
 *          not touched
 * Not      the purge delay, the order of purges, huge pages
 * Threads  3
 * Fault 1, assertion: slices stay free during their purge
 * Fault 2, assertion: slices that the system refused to purge count as clean
 * Fault 3, assertion: slices that the system refused to purge are not free again
 * Fault 4, assertion: slices are disowned after they were unmapped
 * Fault 5, assertion: a slice in use is not marked dirty
 * Fault 6, assertion: dirty slices count as free while they are withheld
 * Fault 7, assertion: purged slices count as dirty */
#include "common.pml"

#define SLICES 2
#define ALL 3
#define BIT(n) (1 << (n))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1))
#define NOBODY 255
#define OURS 254

byte owned = ALL, free = ALL, dirty = ALL, free_slices = 2, free_dirty = 2, resident = 2;
byte runs = FREE, purging = FREE;
byte ended;

/* The true state: the holder of each address, resident pages, slices in use. */
byte address[SLICES] = OURS;
bool pages[SLICES] = true;
byte in_use;

inline unlock_checked()
{
    assert(free_slices == COUNT(free) && free_dirty == COUNT(free & dirty) && resident == COUNT(dirty));
    assert((free & ~owned) == 0 && (in_use & free) == 0);
    assert(!pages[0] || address[0] != OURS || !(free & 1) || (dirty & 1));
    assert(!pages[1] || address[1] != OURS || !(free & 2) || (dirty & 2));
    unlock(runs)
}

inline release_slices(slices)
{
    free_slices = free_slices + COUNT(slices);
    free_dirty = free_dirty + COUNT(slices & dirty);
    free = free | (slices)
}

inline use_slices(slices)
{
    free_slices = free_slices - COUNT(slices);
    free_dirty = free_dirty - COUNT(slices & dirty);
    free = free & ~(slices);
#if FAULT != 5
    resident = resident + COUNT((slices) & ~dirty);
    dirty = dirty | (slices)
#endif
}

/* Maps a slice at a free address. */
inline hk_arena_grow()
{
    if
    :: atomic { address[0] == NOBODY -> address[0] = OURS; slice = 0; pages[0] = false }
    :: atomic { address[1] == NOBODY -> address[1] = OURS; slice = 1; pages[1] = false }
    :: atomic { address[0] != NOBODY && address[1] != NOBODY -> slice = SLICES }
    fi;
    if
    :: slice < SLICES ->
       assert(!(owned & BIT(slice)));
       owned = owned | BIT(slice);
       dirty = dirty & ~BIT(slice);
       free = free | BIT(slice);
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
    slice = SLICES;
    atomic {
        if
        :: free & 1 -> slice = 0
        :: free & 2 -> slice = 1
        :: free == 0
        fi
    };
    if
    :: slice < SLICES -> atomic { use_slices(BIT(slice)); assert(!(in_use & BIT(slice))); in_use = in_use | BIT(slice) }
    :: else
    fi;
    unlock_checked()
}

inline run_free()
{
    lock(runs);
    atomic { in_use = in_use & ~BIT(slice); release_slices(BIT(slice)) };
    unlock_checked()
}

/* The program fills its slices and finds its data intact. */
proctype User()
{
    byte slice, turn;
    do
    :: turn < 2 ->
       run_alloc();
       if
       :: slice < SLICES ->
          assert(address[slice] == OURS);
          pages[slice] = true;
          assert(pages[slice] && address[slice] == OURS);
          run_free()
       :: else
       fi;
       turn++
    :: else -> break
    od;
    atomic { slice = 0; turn = 0; ended++ }
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
        free_dirty = free_dirty - COUNT(due & dirty);
        free = free & ~due
#endif
    };
#if FAULT != 4
    if
    :: !keeps -> atomic { resident = resident - COUNT(due & dirty); owned = owned & ~due; dirty = dirty & ~due }
    :: else
    fi;
#endif
    unlock_checked()
}

/* One call for each slice; the system may refuse. Another mapping may take an unmapped address at once. */
inline purge_slices()
{
    gone = 0;
    slice = 0;
    do
    :: slice < SLICES && (due & BIT(slice)) ->
       if
       :: atomic { keeps -> pages[slice] = false; gone = gone | BIT(slice) }
       :: atomic {
           !keeps ->
           assert(address[slice] == OURS && !(in_use & BIT(slice)));
           pages[slice] = false; address[slice] = NOBODY; gone = gone | BIT(slice)
          }
       :: true
       fi;
       slice++
    :: slice < SLICES && !(due & BIT(slice)) -> slice++
    :: else -> break
    od;
    slice = 0
}

inline end_purge()
{
    lock(runs);
    if
    :: keeps ->
#if FAULT == 2
       resident = resident - COUNT(due & dirty);
       dirty = dirty & ~due;
#else
#if FAULT != 7
       resident = resident - COUNT(gone & dirty);
#endif
       dirty = dirty & ~gone;
#endif
#if FAULT == 1
       free_dirty = COUNT(free & dirty)
#elif FAULT == 3
       release_slices(due & gone)
#else
       release_slices(due)
#endif
    :: else ->
#if FAULT == 1
       resident = resident - COUNT(gone & dirty);
       owned = owned & ~gone; dirty = dirty & ~gone; free = free & ~gone;
       free_slices = COUNT(free); free_dirty = COUNT(free & dirty)
#elif FAULT == 4
       resident = resident - COUNT(gone & dirty);
       owned = owned & ~gone; dirty = dirty & ~gone;
       release_slices(due & ~gone)
#elif FAULT == 3
       skip
#else
       owned = owned | (due & ~gone);
       dirty = dirty | (due & ~gone);
       resident = resident + COUNT(due & ~gone);
       release_slices(due & ~gone)
#endif
    fi;
    unlock_checked()
}

/* keeps: a purge, which keeps the addresses; else an unmapping. A range at a time, while one is due. A timed purge leaves the work
 * to a thread that is purging; a full one waits for it. */
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

/* Then uses memory itself. */
proctype Purger()
{
    byte slice, due, gone;
    bool got, keeps, again;
    if
    :: keeps = true
    :: keeps = false
    fi;
    runs_purge(false);
    run_alloc();
    if
    :: slice < SLICES -> pages[slice] = true; run_free()
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
