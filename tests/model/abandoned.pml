/* Abandoned slabs: a slab without a thread is published, adopted, claimed, and allocated from in place; it has one holder at a time.
 *
 * Code     `hk_abandoned_add()`, `hk_abandoned_adopt()`, `hk_abandoned_claim()`, `hk_abandoned_free()`,
 *          `hk_abandoned_alloc()`, `keep_and_unlock()`, `become_owner_locked()` in `slab/abandoned.c`;
 *          `hk_list_looks_empty()` in `base/list.h`; `free_abandoned()`, `hk_tcache_keep()` in `tcache/miss.c`; `hk_slab_alloc()` in `slab/slab.c`, `hk_slab_release()` in `slab/slab_life.c`, `hk_slab_free()` in `slab/slab.h`; `hk_abandoned_sweep()`, `sweep_abandoned()`,
 *          `hk_abandoned_purge()`, `trim_abandoned()` in `slab/abandoned.c`; `hk_slab_sweep_under()` in `slab/slab_purge.h`, `sweep_slab()`, `hk_slab_trim()` in `slab/slab_purge.c`
 * Shows    an abandoned slab is listed exactly while it has some free blocks and is not all free, so a thread that needs blocks
 *          finds it; no block is handed out twice; only the holder changes a slab; it is released once, and no thread finds
 *          it afterwards; only free blocks lose their pages
 * Not      blocks of another living thread (handover.pml, ending.pml): here they wait for its end
 * Threads  3
 * Fault 1, assertion: an adopted slab stays listed
 * Fault 2, assertion: claim does not check again under the lock that the slab is abandoned
 * Fault 3, assertion: the page map entry names no owner before the lock is taken
 * Fault 4, assertion: a slab that becomes all free stays listed
 * Fault 5, assertion: a full abandoned slab is not listed when a block of it is freed
 * Fault 6, assertion: an abandoned slab whose last free block is taken stays listed
 * Fault 7, assertion: the list is believed as it was before the lock was taken
 * Fault 8, assertion: the pages of an abandoned slab's free blocks are purged after the lock is released */
#include "common.pml"

#define NOBODY 0
#define ABANDONED 255
/* Threads are 1, 2, 3: pids. */
#define BLOCKS 2
#define ALL 3
#define TURNS 2
#define BIT(n) (1 << (n))

byte entry = 1;
byte bits = 2;  /* free in the slab: one of two blocks; the other is with thread 2 */
byte held = 1;  /* with the program */
byte kept = 1;  /* the program's data are intact */
byte abandoned_lock = FREE;
bool listed;
byte released, ended;

#define abandoned_as_it_should_be (listed == (entry == ABANDONED && bits != 0 && bits != ALL))

inline unlock_checked()
{
    assert(entry != ABANDONED || bits == ALL || abandoned_as_it_should_be);
    unlock(abandoned_lock)
}

/* A block for the program. */
inline slab_take(holder)
{
    atomic {
        assert(holder && bits != 0 && entry != NOBODY);
        block = (bits & 1 -> 0 : 1);
        bits = bits & ~BIT(block);
        assert(!(held & BIT(block)));
        held = held | BIT(block);
        kept = kept | BIT(block);
        mine = mine | BIT(block)
    }
}

inline slab_put(holder)
{
    atomic {
        assert(holder && !(bits & BIT(block)) && (held & BIT(block)) && (kept & BIT(block)));
        held = held & ~BIT(block);
        mine = mine & ~BIT(block);
        bits = bits | BIT(block)
    }
}

inline slab_release() { atomic { assert(bits == ALL && entry != NOBODY && !listed); entry = NOBODY; released++ } }

inline list_abandoned_locked()
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

inline abandoned_abandon()
{
#if FAULT == 3
    entry = ABANDONED;
#endif
    lock(abandoned_lock);
    entry = ABANDONED;
    was_partial = true;
    list_abandoned_locked();
    unlock_checked();
    release_if_all_free()
}

inline become_owner_locked()
{
    assert(entry == ABANDONED);
#if FAULT != 1
    listed = false;
#endif
    entry = _pid
}

inline abandoned_adopt()
{
    if
    :: listed ->
       lock(abandoned_lock);
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

inline abandoned_claim()
{
    lock(abandoned_lock);
    if
#if FAULT == 2
    :: true -> become_owner_locked()
#else
    :: entry == ABANDONED -> become_owner_locked()
    :: else
#endif
    fi;
    unlock_checked()
}

inline abandoned_free()
{
    lock(abandoned_lock);
    if
    :: entry == ABANDONED -> was_partial = listed; slab_put(holds(abandoned_lock)); list_abandoned_locked()
    :: else
    fi;
    unlock_checked();
    release_if_all_free()
}

/* For a thread without a tcache; if no slab is listed it would make a new one. */
inline abandoned_alloc()
{
    lock(abandoned_lock);
    if
    :: listed ->
       slab_take(holds(abandoned_lock));
#if FAULT != 6
       listed = (bits != 0)
#endif
    :: else
    fi;
    unlock_checked()
}

/* Purges pages without a block in use: of an abandoned slab under the lock, of an own slab at any time. */
inline abandoned_sweep()
{
    lock(abandoned_lock);
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

/* A block of its own slab, of an abandoned slab (claimed if the thread needs such blocks), or of another thread's slab. */
inline free_one()
{
    block = (mine & 1 -> 0 : 1);
    if
    :: entry == _pid -> slab_put(entry == _pid)
    :: entry == ABANDONED -> abandoned_free()
    :: entry == ABANDONED -> abandoned_claim()
    :: entry != _pid && entry != ABANDONED -> assert(entry != NOBODY)
    fi;
    block = 0
}

inline one_turn()
{
    if
    :: entry == _pid && bits != 0 -> slab_take(entry == _pid); block = 0
    :: entry == _pid -> abandoned_abandon()
    :: entry != _pid -> abandoned_adopt()
    :: abandoned_alloc(); block = 0
    :: abandoned_sweep()
    :: entry == _pid -> kept = kept & ~bits
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
    /* Its end: its blocks of another thread's slab wait until that thread has ended too. */
    if
    :: entry == _pid -> abandoned_abandon()
    :: else
    fi;
    do
    :: mine != 0 ->
       entry == ABANDONED || entry == _pid;
       free_one();
       if
       :: entry == _pid -> abandoned_abandon()
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
