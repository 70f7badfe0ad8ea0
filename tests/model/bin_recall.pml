/* Bin recall: a thread takes the free blocks, except the newest, out of a bin of another thread, while that thread is in a hit or begins a slow call.
 *
 *   owner, hit of malloc:  gate open? -> loads top and item -> stores top         owner, hit of free:  loads top -> stores item -> stores top
 *   owner, slow call:      busy -> waits while taken -> closes the holes -> uses the bin -> not busy
 *   recaller:              taken, gate shut, fence; busy? gives up. Else reads top, fence, takes older items, fence; then gate open, not taken
 *
 * Code     `hk_tcache_enter()`, `hk_tcache_leave()` in `tcache/layout.h`; `hk_tcache_enter_slow()`, `close_holes()`, `take_older()`, `take_all()`,
 *          `recall_from()` in `tcache/recall.c`; `hk_hit_pop()`, `hk_hit_push_at()` in `tcache/hit.h`; `hk_tcache_alloc()`, `hk_tcache_keep()` in
 *          `tcache/miss.c`; `set_gate()` in `tcache/cacheless.c`; `linux_fence_threads()` in `os/os_linux.c`
 * Shows    no block has two holders or is lost; no slow call uses a bin while blocks are taken from it, or meets a hole; no thread waits forever
 * Not      the depot, which only slow calls use; fork, begin and end of the thread. One word stands for xholes and xrecalled. A hit may load top and
 *          item before the gate, as a weak processor does. If a fence comes before the load of the gate, the hit loads them again
 * Threads  3
 * Fault 1, assertion: no fence after the gate is shut
 * Fault 2, assertion: the recaller does not look whether the owner is busy
 * Fault 3, assertion: the newest block is taken too
 * Fault 4, assertion: no fence between the read of top and the reads of the items
 * Fault 5, assertion: no fence before the gate opens
 * Fault 6, assertion: a slow call does not look whether its cache is taken
 * Fault 7, assertion: a slow call looks for holes before it looks whether its cache is taken
 * Fault 8, assertion: a slow call does not close the holes
 * Fault 9, assertion: the end of a slow call is no release
 * Fault 10, assertion: a thread that opens the gate for another reason holds no lock */
#define THREADS 2
#define WORDS 8
#define TAKEN 0
#define GATE 1 /* 1: open */
#define BUSY 2
#define HOLES 3
#define TOP 4
#define ITEM(i) (4 + (i)) /* items 1 to BLOCKS; the block plus one; 0: NULL */
#include "common.pml"

#define BLOCKS 3 /* as many as the bin has room for */
#define TURNS 2
#define RECALLS 2

mtype = { PROGRAM, BIN, SLAB };
mtype place[BLOCKS];
byte gate = FREE;     /* the lock of the gate */
bool recalls, rounds; /* reasons to shut the gate */
bool slow, taking;
bool squashed; /* the owner has loaded nothing early, or a fence has come since */
byte ended;

/* Of the owner and of the recaller. */
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
        each = 0;
        squashed = true
    }
}

inline give(block, from, to)
{
    assert(place[block] == from);
    place[block] = to
}

inline load_newest()
{
    top = load(TOP);
    item = (top == 0 -> 0 : load(ITEM(top)))
}

inline hit_malloc()
{
    squashed = true;
    if
    :: squashed = false; load_newest()
    :: true
    fi;
    open = load(GATE);
    if
    :: open ->
       if
       :: squashed -> load_newest()
       :: else
       fi;
       missed = (item == 0);
       if
       :: !missed -> atomic { give(item - 1, BIN, PROGRAM); store(TOP, top - 1) }
       :: else
       fi
    :: else -> missed = true
    fi;
    item = 0
}

/* The block counts as in the bin from the store of the item. Until the store of top, the recaller does not take it. */
inline hit_free()
{
    top = load(TOP);
    missed = (top == BLOCKS);
    if
    :: !missed ->
       atomic { give(block, PROGRAM, BIN); store(ITEM(top + 1), block + 1) };
       store(TOP, top + 1)
    :: else
    fi
}

inline enter()
{
    store(BUSY, 1);
#if FAULT == 7
    holes = load(HOLES);
#endif
#if FAULT != 6
    do
    :: load(TAKEN) == 0 -> break
    :: else -> atomic { release(); store(BUSY, 0) }; store(BUSY, 1)
    od;
#endif
#if FAULT != 7
    holes = load(HOLES);
#endif
    slow = true;
    assert(!taking)
}

inline leave()
{
    atomic {
        slow = false;
#if FAULT != 9
        release();
#endif
        store(BUSY, 0)
    }
}

/* Closes the holes. Then moves the items of a full bin to the slab and those of the slab to an empty bin. This is one step, because nobody else uses
 * the bin during a slow call. */
inline use_bin()
{
    d_step {
        top = load(TOP);
#if FAULT == 8
        holes = 0;
#endif
        i = 1;
        do
        :: holes != 0 && i + holes <= top -> item = load(ITEM(i + holes)); store(ITEM(i), item); i++
        :: else -> break
        od;
        if
        :: holes != 0 -> top = top - holes; store(HOLES, 0)
        :: else
        fi;
        i = 0;
        do
        :: i < top -> i++; item = load(ITEM(i)); assert(item != 0); give(item - 1, BIN, SLAB)
        :: else -> break
        od;
        if
        :: top != 0 -> top = 0
        :: else ->
           i = 0;
           do
           :: i < BLOCKS && place[i] == SLAB -> place[i] = BIN; top++; store(ITEM(top), i + 1); i++
           :: i < BLOCKS && place[i] != SLAB -> i++
           :: else -> break
           od
        fi;
        store(TOP, top);
        i = 0;
        item = 0;
        holes = 0
    }
}

proctype Owner()
{
    byte turns, top, item, block, holes, i;
    bool open, missed;
    do
    :: turns < TURNS ->
       if
       :: hit_malloc()
       :: place[0] == PROGRAM -> block = 0; hit_free()
       :: place[1] == PROGRAM -> block = 1; hit_free()
       :: place[2] == PROGRAM -> block = 2; hit_free()
       fi;
       if
       :: missed -> enter(); use_bin(); leave()
       :: else
       fi;
       atomic { top = 0; block = 0; missed = false; open = false; turns++ }
    :: else -> break
    od;
    atomic { turns = 0; ended++ }
}

inline set_gate(yes)
{
    lock(gate);
    recalls = yes;
    store(GATE, !(recalls || rounds));
    unlock(gate)
}

inline take_older()
{
    n = load(TOP);
#if FAULT != 4
    fence_threads();
#endif
    i = load(HOLES);
    do
#if FAULT == 3
    :: i < n ->
#else
    :: i + 1 < n ->
#endif
       i++;
       atomic { item = load(ITEM(i)); assert(item != 0); give(item - 1, BIN, SLAB) };
       store(ITEM(i), 0)
    :: else -> break
    od;
    atomic { store(HOLES, i); n = 0; i = 0; item = 0 }
}

proctype Recaller()
{
    byte turns, n, i, item;
    do
    :: turns < RECALLS && load(HOLES) == 0 ->
       store(TAKEN, 1);
       set_gate(true);
#if FAULT != 1
       fence_threads();
#endif
       if
#if FAULT == 2
       :: true ->
#else
       :: load(BUSY) == 0 ->
#endif
          taking = true;
          assert(!slow);
          take_older();
          taking = false;
#if FAULT != 5
          fence_threads()
#endif
#if FAULT != 2
       :: else
#endif
       fi;
       set_gate(false);
       atomic { release(); store(TAKEN, 0) };
       turns++
    :: else -> break
    od;
    atomic { turns = 0; ended++ }
}

/* Another reason shuts the gate and opens it again. The stores of this thread are visible at once. */
proctype Rounds()
{
    bool shut;
    byte turns;
    do
    :: turns < 2 ->
#if FAULT != 10
       lock(gate);
#endif
       rounds = (turns == 0);
       shut = rounds || recalls;
       memory[GATE] = !shut;
#if FAULT != 10
       gate = FREE;
#endif
       turns++
    :: else -> break
    od;
    atomic { turns = 0; shut = false; ended++ }
}

/* Up to three blocks are in the bin, and the program has the others. The bin's array still holds these too, above its top. */
init
{
    byte i, item;
    atomic {
        memory[GATE] = 1;
        if
        :: memory[TOP] = 1
        :: memory[TOP] = 2
        :: memory[TOP] = 3
        fi;
        do
        :: i < BLOCKS -> memory[ITEM(i + 1)] = i + 1; place[i] = (i < memory[TOP] -> BIN : PROGRAM); i++
        :: else -> break
        od;
        run Owner(); run Recaller(); run Memory(); run Rounds()
    };
    atomic {
        ended == 3 && under_way == 0;
        assert(memory[GATE] == 1 && memory[TAKEN] == 0 && memory[BUSY] == 0);
        i = memory[HOLES];
        do
        :: i < memory[TOP] -> i++; item = memory[ITEM(i)]; assert(item != 0); give(item - 1, BIN, SLAB)
        :: else -> break
        od;
        assert(place[0] != BIN && place[1] != BIN && place[2] != BIN)
    }
}
