/* Sweep: the background thread, and a thread that trims, read the slab lists of other threads, while these take and free blocks, adopt
 * slabs, end, and begin again. A thread takes a slab over from the list of the other one.
 *
 *   two threads: begin, take, free, end; the first begins again, and may trim the second one's slabs
 *   background: each owner in turn, a slab at a time, while one of them is open
 *
 * Code     `run()` in `runtime/background.c`; `hk_decay_in_background()`, `sweep_some()`, `purge_of_others()` in
 *          `decay/decay.c`; `hk_slab_heap_sweep_begin()`, `hk_slab_heap_sweep()`, `sweep_on()`, `hk_slab_heap_trim_some()` in `slab/idle.c`;
 *          `hk_slab_heap_alloc()`, `take_over()`, `give_away()`, `take_blocks()`, `join_blocks()`, `hk_slab_heap_free()`, `free_blocks()`, `move_between_lists()`,
 *          `hk_slab_heap_abandon()` in `slab/slab_heap.c`; `hk_owner_register()`, `hk_owner_open()` in
 *          `slab/owner.c`; `hk_abandoned_add()`, `hk_abandoned_adopt()` in `slab/abandoned.c`; `hk_link_remove_under()` in
 *          `base/list.h`; `hk_slab_sweep_under()` in `slab/slab_purge.h`, `sweep_slab()`, `hk_slab_trim()` in `slab/slab_purge.c`
 * Shows    only free blocks lose their pages; a sweep reads only lists of owners with a thread, and slabs on them; a trim
 *          finds no lists that were never set up; no thread waits forever
 * Not      fork (bystanders.pml), the sweep of abandoned slabs (abandoned.pml), slabs that are released
 * Threads  3
 * Fault 1, assertion: the background thread sweeps without the lists lock
 * Fault 2, assertion: a block is taken without the lists lock
 * Fault 3, assertion: the sweep checks that an owner is open before it takes the lock
 * Fault 4, assertion: an owner stays open at its thread's end
 * Fault 5, assertion: a slab that leaves its list leaves the sweep's position on it
 * Fault 6, assertion: pages are purged after the lock is released
 * Fault 7, assertion: a trim does not check that an owner was ever open
 * Fault 8, assertion: a slab is taken over without the lists lock of its owner
 * Fault 9, assertion: a slab that is taken over leaves the sweep's position on it */
#include "common.pml"

/* Owners are 0 and 1. Two slabs, each of one block. */
#define OWNERS 2
#define ABANDONED 9
#define TURNS 2
/* Where a slab is. */
#define NOWHERE 0 /* a full abandoned slab */
#define LISTED 1  /* an abandoned slab that can be adopted */
#define PARTIAL 2
#define FULL 3
#define MOVING 4  /* taken over, and on no list yet */
/* Where a sweep is: at a slab, or: */
#define END 2
#define NONE 3

byte sweep_lock = FREE, abandoned_lock = FREE;
byte shelves[OWNERS] = FREE; /* locks */
bool registered[OWNERS], set_up[OWNERS], open[OWNERS], has_thread[OWNERS];
byte at[OWNERS] = NONE;
bool left[OWNERS];
byte entry[2], place[2] = PARTIAL;
bool taken[2];
bool kept[2];                /* the program's data are intact */
byte ended;

#define on_partial(owner, slab) (entry[slab] == owner && place[slab] == PARTIAL)
#define behind(owner, slab) (slab == 0 && on_partial(owner, 1) -> 1 : END)
#define first_of(owner) (on_partial(owner, 0) -> 0 : (on_partial(owner, 1) -> 1 : END))

inline move_between_lists(me, where)
{
#if FAULT != 5
    if
    :: at[me] == slab -> at[me] = behind(me, slab)
    :: else
    fi;
#endif
    place[slab] = where
}

inline adopt(me)
{
    lock(abandoned_lock);
    if
    :: place[0] == LISTED -> atomic { entry[0] = me; place[0] = PARTIAL; slab = 0 }
    :: place[0] != LISTED && place[1] == LISTED -> atomic { entry[1] = me; place[1] = PARTIAL; slab = 1 }
    :: else
    fi;
    unlock(abandoned_lock)
}

inline blocks_take(me)
{
#if FAULT != 2
    lock(shelves[me]);
#endif
    if
    :: on_partial(me, 0) -> slab = 0
    :: on_partial(me, 1) -> slab = 1
    :: else -> slab = END; adopt(me)
    fi;
    if
    :: slab != END ->
       atomic { assert(!taken[slab] && on_partial(me, slab)); taken[slab] = true; kept[slab] = true };
       move_between_lists(me, FULL)
    :: else
    fi;
#if FAULT != 2
    unlock(shelves[me]);
#endif
    slab = 0
}

/* A block of its own slab. */
inline blocks_put(me)
{
    slab = (entry[0] == me && taken[0] -> 0 : 1);
    assert(kept[slab]);
    lock(shelves[me]);
    taken[slab] = false;
    move_between_lists(me, PARTIAL);
    unlock(shelves[me]);
    slab = 0
}

/* A slab of another owner becomes the thread's own. It was unused for an epoch, or the thread is wrong about it. */
inline take_over(me, from)
{
    lock(sweep_lock);
#if FAULT != 8
    lock(shelves[from]);
#endif
    slab = (open[from] -> first_of(from) : END);
    if
    :: slab != END ->
#if FAULT != 9
       if
       :: at[from] == slab -> at[from] = behind(from, slab)
       :: else
       fi;
#endif
       atomic { assert(on_partial(from, slab) && !taken[slab]); place[slab] = MOVING; entry[slab] = me }
    :: else
    fi;
#if FAULT != 8
    unlock(shelves[from]);
#endif
    unlock(sweep_lock);
    if
    :: slab != END -> lock(shelves[me]); assert(entry[slab] == me && place[slab] == MOVING); place[slab] = PARTIAL; unlock(shelves[me])
    :: else
    fi;
    slab = 0
}

inline owner_open(me)
{
    lock(shelves[me]);
    set_up[me] = true;
    at[me] = NONE;
    left[me] = false;
    atomic { open[me] = true; has_thread[me] = true };
    unlock(shelves[me])
}

inline abandon_slab(me, which)
{
    if
    :: entry[which] == me ->
       lock(abandoned_lock);
       entry[which] = ABANDONED;
       place[which] = (taken[which] -> NOWHERE : LISTED);
       unlock(abandoned_lock)
    :: else
    fi
}

/* The data in its blocks stay intact. */
inline blocks_abandon(me)
{
    lock(shelves[me]);
    has_thread[me] = false;
    abandon_slab(me, 0);
    abandon_slab(me, 1);
    at[me] = NONE;
    left[me] = false;
#if FAULT != 4
    open[me] = false;
#endif
    unlock(shelves[me])
}

inline purge(owner, which)
{
    assert(on_partial(owner, which) && !taken[which]);
    kept[which] = false
}

/* One system call, for one slab. */
inline trim_some(owner, which)
{
    lock(sweep_lock);
    lock(shelves[owner]);
#if FAULT == 7
    is_open = registered[owner];
#else
    is_open = open[owner];
#endif
    unlock(shelves[owner]);
    if
    :: is_open ->
       lock(shelves[owner]);
       is_open = (FAULT == 7 || open[owner]);
       assert(!is_open || set_up[owner]);
       if
       :: is_open && on_partial(owner, which) -> purge(owner, which)
       :: else
       fi;
       unlock(shelves[owner])
    :: else
    fi;
    unlock(sweep_lock);
    is_open = false
}

/* Of one other owner. */
inline purge_of_one(owner)
{
    trim_some(owner, 0);
    trim_some(owner, 1)
}

proctype Thread(byte me, lives)
{
    byte turn, slab;
    bool is_open;
    do
    :: lives > 0 ->
       if
       :: !open[me] -> registered[me] = true; owner_open(me)
       :: else /* the first life begins with slabs */
       fi;
       turn = 0;
       do
       :: turn < TURNS ->
          if
          :: true ->
             if
             :: me == 1 && turn == 0 && first_of(1) == END -> take_over(1, 0)
             :: else
             fi;
             blocks_take(me)
          :: (entry[0] == me && taken[0]) || (entry[1] == me && taken[1]) -> blocks_put(me)
          :: me == 0 -> purge_of_one(1)
          :: true
          fi;
          turn++
       :: else -> break
       od;
       blocks_abandon(me);
       lives--
    :: else -> break
    od;
    atomic { turn = 0; ended++ }
}

inline sweep_begin()
{
    lock(shelves[owner]);
    if
    :: !left[owner] && open[owner] -> left[owner] = true
    :: else
    fi;
    unlock(shelves[owner])
}

/* One slab; over at the end of the lists. */
inline sweep_on()
{
    assert(set_up[owner] && has_thread[owner]);
    if
    :: !left[owner] -> over = true
    :: else ->
       if
       :: at[owner] == NONE -> at[owner] = first_of(owner)
       :: else
       fi;
       if
       :: at[owner] == END -> at[owner] = NONE; left[owner] = false; over = true
       :: else ->
          seen = at[owner];
          assert(on_partial(owner, seen));
          at[owner] = behind(owner, seen);
#if FAULT == 6
          unlock(shelves[owner]);
          purge(owner, seen);
          lock(shelves[owner]);
#else
          purge(owner, seen);
#endif
          seen = 0
       fi
    fi
}

inline sweep_some()
{
    lock(sweep_lock);
#if FAULT == 3
    over = !open[owner];
#endif
#if FAULT != 1
    lock(shelves[owner]);
#endif
#if FAULT != 3
    over = !open[owner];
#endif
    if
    :: !over -> sweep_on()
    :: else
    fi;
#if FAULT != 1
    unlock(shelves[owner]);
#endif
    lock(shelves[owner]);
    threads = threads || open[owner];
    unlock(shelves[owner]);
    unlock(sweep_lock)
}

proctype Background()
{
    byte owner, seen;
    bool threads = true, over;
    do
    :: threads ->
       threads = false;
       do
       :: owner < OWNERS && registered[owner] ->
          sweep_begin();
          do
          :: !over -> sweep_some()
          :: else -> break
          od;
          over = false;
          owner++
       :: else -> break
       od;
       owner = 0
    :: else -> break
    od;
    ended++
}

init
{
    atomic {
        registered[0] = true; set_up[0] = true; open[0] = true; has_thread[0] = true;
        run Thread(0, 2); run Thread(1, 1); run Background()
    };
    ended == 3;
    assert((!taken[0] || kept[0]) && (!taken[1] || kept[1]))
}
