/* Recall: a thread that a heap's limit refuses takes the free blocks out of another thread's cache of the heap, while that thread is in a hit of
 * the cache, misses, or ends.
 *
 *   owner: busy, open? -> pop or push -> not busy      recaller: shut, every thread executes a fence, not busy? -> the blocks go to the slabs
 *
 * Code     `hk_heap_hit_begin()`, `hk_heap_hit_end()`, `hk_heap_pop()`, `hk_heap_push_from()` in `heaps/heap_cache.h`; `hk_heaps_hit()`,
 *          `hk_heaps_hit_free_at()` in `heaps/heaps.h`; `comes_out_of_hit()`, `hk_heap_recall_locked()`, `cache_for_locked()`,
 *          `open_cache_locked()`, `flush_locked()`, `refill_locked()`, `keep_locked()`, `end_heap_cache()` in `heaps/heap_cache.c`;
 *          `linux_fence_threads()` in `os/os_linux.c`
 * Shows    no block has two holders, comes back twice or is lost; no thread waits forever
 * Not      resets, fork. The fence of the system lets the stores of all threads become visible; what it does to loads follows from its definition
 * Threads  2
 * Fault 1, assertion: no fence
 * Fault 2, assertion: the recaller does not wait for the owner's hit
 * Fault 3, assertion: the owner looks whether its cache is open before it is busy
 * Fault 4, assertion: the end of a hit is no release
 * Fault 5, assertion: the fence comes before the cache is shut
 * Fault 6, assertion: the owner refills and opens its cache without the lock
 * Fault 7, assertion: a thread that ends gives its blocks back without the lock */
#define THREADS 2
#define WORDS 3
#define OPEN 0
#define BUSY 1
#define BIN 2 /* a bit for each block in it */
#include "common.pml"

#define TURNS 3
#define NOBODY 0
#define OWNER 1
#define RECALLER 2

byte heap = FREE;
byte slab = 2; /* a bit for each block that is free there, under the lock */
byte holder[2];
bool listed = true;
byte ended;

/* Of the calling thread's memory and all others'. */
inline fence_threads()
{
    d_step {
        each = 0;
        do
        :: each < THREADS * WORDS ->
           if
           :: late[each] != 0 -> memory[each % WORDS] = late[each] - 1; late[each] = 0; under_way--
           :: else
           fi;
           each++
        :: else -> break
        od;
        each = 0
    }
}

inline take(which, me)
{
    assert(holder[which] == NOBODY);
    holder[which] = me
}

inline put(bits)
{
    atomic {
        assert((slab & (bits)) == 0);
        assert(((bits) & 1) == 0 || holder[0] == NOBODY);
        assert(((bits) & 2) == 0 || holder[1] == NOBODY);
        slab = slab | (bits)
    }
}

inline hit()
{
#if FAULT == 3
    open = load(OPEN);
    store(BUSY, 1);
#else
    store(BUSY, 1);
    open = load(OPEN);
#endif
    missed = true;
    if
    :: open && block == 2 ->
       bin = load(BIN);
       if
       :: bin != 0 ->
          block = (bin & 2 -> 1 : 0);
          take(block, OWNER);
          store(BIN, bin & ~(1 << block));
          missed = false
       :: else
       fi
    :: open && block != 2 ->
       bin = load(BIN);
       atomic { holder[block] = NOBODY; store(BIN, bin | (1 << block)) };
       block = 2;
       missed = false
    :: else
    fi;
    atomic {
#if FAULT != 4
        release();
#endif
        store(BUSY, 0)
    }
}

inline miss()
{
#if FAULT != 6
    lock(heap);
#endif
    store(OPEN, 1);
    bin = load(BIN);
    if
    :: block != 2 -> atomic { holder[block] = NOBODY; store(BIN, bin | (1 << block)) }; block = 2
    :: block == 2 && bin == 0 && slab != 0 -> store(BIN, slab); slab = 0
    :: else
    fi;
#if FAULT != 6
    unlock(heap)
#else
    release()
#endif
}

proctype Owner()
{
    byte turns, bin, block = 2;
    bool open, missed;
    do
    :: turns < TURNS ->
       hit();
       if
       :: missed -> miss()
       :: else
       fi;
       turns++
    :: else -> break
    od;
#if FAULT != 7
    lock(heap);
#endif
    bin = load(BIN);
    put(bin);
    store(BIN, 0);
    if
    :: block != 2 -> holder[block] = NOBODY; put(1 << block)
    :: else
    fi;
    listed = false;
#if FAULT != 7
    unlock(heap);
#endif
    atomic { turns = 0; bin = 0; block = 0; open = false; missed = false; ended++ }
}

inline recall()
{
#if FAULT == 5
    fence_threads();
#endif
    store(OPEN, 0);
#if FAULT != 1 && FAULT != 5
    fence_threads();
#endif
    reached = true;
#if FAULT != 2
    if
    :: load(BUSY) == 0
    :: reached = false /* it has waited long enough */
    fi;
#endif
    if
    :: reached && listed ->
       bin = load(BIN);
       put(bin);
       store(BIN, 0)
    :: else
    fi
}

/* Takes a block of the slab, if there is one, and gives it back. */
proctype Recaller()
{
    byte turns, bin, block;
    bool reached;
    do
    :: turns < 2 ->
       lock(heap);
       recall();
       block = (slab & 1 -> 0 : (slab & 2 -> 1 : 2));
       if
       :: block != 2 -> take(block, RECALLER); slab = slab & ~(1 << block)
       :: else
       fi;
       unlock(heap);
       lock(heap);
       if
       :: block != 2 -> holder[block] = NOBODY; put(1 << block)
       :: else
       fi;
       unlock(heap);
       turns++
    :: else -> break
    od;
    atomic { turns = 0; bin = 0; block = 0; reached = false; ended++ }
}

/* One block is free in the slab, one in the cache. */
init
{
    atomic { memory[OPEN] = 1; memory[BIN] = 1; run Owner(); run Recaller(); run Memory() };
    ended == THREADS && under_way == 0;
    assert(slab == 3 && memory[BIN] == 0)
}
