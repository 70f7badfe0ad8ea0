/* Registry: a slab without a thread is published, adopted, claimed, and served from in place; it has one holder at a time.
 *
 * Code     `hk_orphans_abandon()`, `hk_orphans_adopt()`, `hk_orphans_claim()`, `hk_orphans_free()`,
 *          `hk_orphans_alloc()`, `list_orphan_locked()`, `become_owner_locked()` in `slab/orphans.c`;
 *          `hk_list_looks_empty()` in `base/list.h`; `free_orphaned()`, `hk_tcache_keep()` in `tcache/free_miss.c`; `hk_slab_alloc()` in `slab/slab.c`, `hk_slab_release()` in `slab/slab_life.c`, `hk_slab_free()` in `slab/slab_life.h`; `hk_orphans_sweep()`, `sweep_orphans()`,
 *          `hk_orphans_purge()`, `trim_orphans()` in `slab/orphans.c`; `hk_slab_sweep_under()` in `slab/slab_purge.h`, `sweep_slab()`, `hk_slab_trim()` in `slab/slab_purge.c`
 * Shows    an orphan is listed exactly while it has free blocks and is not all free, so that who is short finds it; no block is
 *          handed out twice; only the holder changes a slab; it is released once, and nobody finds it afterwards; free blocks lose
 *          their pages, blocks with the program never
 * Not      how blocks of another living thread come home (handover.pml, ending.pml): here they wait for its end
 * Threads  3
 * Fault 1, assertion: what is adopted stays listed
 * Fault 2, assertion: claim does not look again under the lock whether it is an orphan
 * Fault 3, assertion: the page map entry says orphan before the lock is taken
 * Fault 4, assertion: a slab that becomes all free stays listed
 * Fault 5, assertion: a full orphan is not listed when a block of it is freed
 * Fault 6, assertion: an orphan whose last free block is taken stays listed
 * Fault 7, assertion: the list is believed as it looked before the lock was taken
 * Fault 8, assertion: the pages of an orphan's free blocks go after the lock was given up */
#include "common.pml"

#define NOBODY 0
#define ORPHAN 255
/* Threads are 1, 2, 3: pids. */
#define BLOCKS 2
#define ALL 3
#define TURNS 2
#define BIT(n) (1 << (n))

byte route = 1;
byte bits = 2;  /* free in the slab: one of two blocks; the other is with thread 2 */
byte held = 1;  /* with the program */
byte kept = 1;  /* what the program wrote is still there */
byte registry = FREE;
bool listed;
byte released, ended;

#define orphan_as_it_should_be (listed == (route == ORPHAN && bits != 0 && bits != ALL))

inline unlock_checked()
{
    assert(route != ORPHAN || bits == ALL || orphan_as_it_should_be);
    unlock(registry)
}

/* A block for the program. */
inline slab_take(holder)
{
    atomic {
        assert(holder && bits != 0 && route != NOBODY);
        block = (bits & 1 -> 0 : 1);
        bits = bits & ~BIT(block);
        assert(!(held & BIT(block)));
        held = held | BIT(block);
        kept = kept | BIT(block);
        mine = mine | BIT(block)
    }
}

inline slab_give(holder)
{
    atomic {
        assert(holder && !(bits & BIT(block)) && (held & BIT(block)) && (kept & BIT(block)));
        held = held & ~BIT(block);
        mine = mine & ~BIT(block);
        bits = bits | BIT(block)
    }
}

inline slab_release() { atomic { assert(bits == ALL && route != NOBODY && !listed); route = NOBODY; released++ } }

inline list_orphan_locked()
{
    all_free = (bits == ALL);
    if
#if FAULT != 4
    :: all_free && listed -> listed = false
#endif
#if FAULT == 5
    :: !all_free && bits != 0 && !listed && was_partial -> listed = true
#else
    :: !all_free && bits != 0 && !listed -> listed = true
#endif
    :: else
    fi
}

inline release_if_all_free()
{
    if
    :: all_free -> slab_release(); all_free = false
    :: else
    fi
}

inline registry_abandon()
{
#if FAULT == 3
    route = ORPHAN;
#endif
    lock(registry);
    route = ORPHAN;
    was_partial = true;
    list_orphan_locked();
    unlock_checked();
    release_if_all_free()
}

inline become_owner_locked()
{
    assert(route == ORPHAN);
#if FAULT != 1
    listed = false;
#endif
    route = _pid
}

inline registry_adopt()
{
    if
    :: listed ->
       lock(registry);
       if
#if FAULT == 7
       :: true -> become_owner_locked()
#else
       :: listed -> become_owner_locked()
       :: else
#endif
       fi;
       unlock_checked()
    :: else
    fi
}

inline registry_claim()
{
    lock(registry);
    if
#if FAULT == 2
    :: true -> become_owner_locked()
#else
    :: route == ORPHAN -> become_owner_locked()
    :: else
#endif
    fi;
    unlock_checked()
}

inline registry_free()
{
    lock(registry);
    if
    :: route == ORPHAN -> was_partial = listed; slab_give(holds(registry)); list_orphan_locked()
    :: else
    fi;
    unlock_checked();
    release_if_all_free()
}

/* For a thread that has no cache; where nothing is listed it would make a new slab. */
inline registry_alloc()
{
    lock(registry);
    if
    :: listed ->
       slab_take(holds(registry));
#if FAULT != 6
       listed = (bits != 0)
#endif
    :: else
    fi;
    unlock_checked()
}

/* Pages without a block in use go back to the system: of an orphan under the lock, of a slab of mine at any time. */
inline registry_sweep()
{
    lock(registry);
#if FAULT == 8
    block = (listed -> bits : 0);
    unlock_checked();
    kept = kept & ~block;
    block = 0
#else
    if
    :: listed -> kept = kept & ~bits
    :: else
    fi;
    unlock_checked()
#endif
}

/* Of a block that the thread has: mine, an orphan's (claimed, if it is short of such blocks), or another's. */
inline free_one()
{
    block = (mine & 1 -> 0 : 1);
    if
    :: route == _pid -> slab_give(route == _pid)
    :: route == ORPHAN -> registry_free()
    :: route == ORPHAN -> registry_claim()
    :: route != _pid && route != ORPHAN -> assert(route != NOBODY)
    fi;
    block = 0
}

inline one_turn()
{
    if
    :: route == _pid && bits != 0 -> slab_take(route == _pid); block = 0
    :: route == _pid -> registry_abandon()
    :: route != _pid -> registry_adopt()
    :: registry_alloc(); block = 0
    :: registry_sweep()
    :: route == _pid -> kept = kept & ~bits
    :: mine != 0 -> free_one()
    :: true
    fi
}

proctype Thread(byte mine)
{
    byte turn, block;
    bool all_free, was_partial;
    do
    :: turn < TURNS -> one_turn(); turn++
    :: else -> break
    od;
    /* Its end: what it has of somebody else's slab waits until that one has ended too. */
    if
    :: route == _pid -> registry_abandon()
    :: else
    fi;
    do
    :: mine != 0 ->
       route == ORPHAN || route == _pid;
       free_one();
       if
       :: route == _pid -> registry_abandon()
       :: else
       fi
    :: else -> break
    od;
    atomic { turn = 0; was_partial = false; ended++ }
}

init
{
    atomic { run Thread(0); run Thread(1); run Thread(0) };
    ended == 3;
    assert(released == 1 && bits == ALL && held == 0 && !listed)
}
