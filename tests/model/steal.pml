/* Steal: a thread that needs blocks takes the remote frees of an owner that sleeps, while the owner drains, ends, and its number serves
 * the next thread.
 *
 *   thief: takes the slab out under a try-lock, and takes it over under the lock of the owner's lists; or else claims marked blocks; none: it
 *   sends the slab on; some: it unqueues the slab, claims the last blocks, marks the blocks again that do not fit its bin, and frees the rest later
 *   owner: drains, collects, ends                                                 stranger: marks, counts, queues,
 *   and takes over a slab with free blocks from the owner
 *
 * Code     `hk_inbox_steal()`, `hk_inbox_take()`, `take_locked()`, `take_inbox()`, `hk_inboxes_close()`,
 *          `hk_inbox_push()` in `slab/owner.c`; `steal()`, `steal_idle()`, `steal_chain()`, `receive()`, `hk_drain_for_miss()`, `hk_drain_all()` in `tcache/drain.c`, `hk_tcache_end()` in `tcache/ending.c`; `hk_remote_claim()`, `hk_remote_let_go()`, `hk_remote_collect()` in
 *          `slab/remote.c`; `hk_slab_heap_collect()`, `hk_slab_heap_abandon()`, `hk_slab_heap_take_queued()`, `give_away()` in `slab/slab_heap.c`; `hk_send()` in `slab/outbox.c`;
 *          `hk_abandoned_adopt()`, `hk_abandoned_collect()`, `hk_abandoned_add()` in `slab/abandoned.c`
 * Shows    no block is lost or handed out twice; a stolen block comes back when it is freed, whichever thread holds its slab
 *          by then; a closed inbox stays closed; in the end the slab is released, once, and no thread touches it afterwards;
 *          no thread waits forever
 * Not      the order of stores (handover.pml); the time that an owner must have slept: a thief may be wrong about it
 * Threads  3
 * Fault 1, assertion: a thief takes without the lock
 * Fault 2, assertion: the inbox is closed before the lock is taken: a thief opens it again
 * Fault 3, assertion: a thief that claimed no block unqueues the slab
 * Fault 4, assertion: a thief claims by a load and a store
 * Fault 5, assertion: a thief frees stolen blocks to the slab itself
 * Fault 6, end: blocks that a thief claims stay counted
 * Fault 7, end: blocks that a thief marks again are not counted
 * Fault 8, assertion: a thief takes over a slab that its owner has abandoned meanwhile
 * Fault 9, assertion: a thief takes over a slab that its new owner has not yet entered into its lists */
#include "common.pml"

#define NOBODY 0
#define ABANDONED 1
#define OWNER 2
#define THIEF 3
#define TAKER 4
/* Both in use. */
#define ALL 3
#define CLOSED 2
#define BIT(n) (1 << (n))
#define COUNT(bits) (((bits) & 1) + ((bits) / 2 & 1))

byte owner = OWNER;
byte bits;              /* free in the slab */
byte marked;
short counted;
bool queued;            /* a thread is about to queue it, or it is in an inbox or a backlog */
byte inbox[5] = CLOSED; /* 1: the slab is in it */
bool backlog[5], pending[5];
byte abandoned_lock = FREE, drain[5] = FREE;
byte in_bin;            /* of the thief */
byte lists[5] = FREE;   /* the locks of the lists of owner and taker */
bool opened[5];         /* the owner has not abandoned its slabs */
bool linked = true;     /* the slab is in a list of its owner */
bool listed;
byte released, ended;

#define IS_IDLE (bits == ALL && !queued && counted == 0)
#define PLACES ((inbox[OWNER] == 1) + (inbox[THIEF] == 1) + (inbox[TAKER] == 1) + backlog[OWNER] + backlog[THIEF] + backlog[TAKER])

inline list_abandoned_locked()
{
    atomic {
        all_free = IS_IDLE;
        listed = (!all_free && bits != 0)
    }
}

inline release_if_all_free()
{
    if
    :: all_free -> atomic { assert(bits == ALL && owner == ABANDONED); owner = NOBODY; released++; all_free = false }
    :: else
    fi
}

/* By the slab's holder, which took it out of a queue. */
inline remote_collect(holder)
{
    atomic { assert(holder && queued); queued = false };
    atomic { got = marked; marked = 0 };
    atomic { assert(holder && !(bits & got)); bits = bits | got };
    atomic { counted = counted - COUNT(got); got = 0 }
}

inline abandoned_collect()
{
    lock(abandoned_lock);
    done = (owner == ABANDONED);
    if
    :: done -> remote_collect(holds(abandoned_lock)); list_abandoned_locked()
    :: else
    fi;
    unlock(abandoned_lock);
    release_if_all_free()
}

inline inbox_push(to)
{
    atomic {
        done = (inbox[to] != CLOSED);
        assert(PLACES == 0 && queued);
        if
        :: done -> inbox[to] = 1
        :: else
        fi
    };
    if
    :: done -> pending[to] = true
    :: else
    fi
}

inline send()
{
    seen = owner;
    do
    :: assert(seen != NOBODY);
       if
       :: seen == ABANDONED -> abandoned_collect()
       :: else -> inbox_push(seen)
       fi;
       if
       :: done -> break
       :: else
       fi;
       atomic { seen == ABANDONED || inbox[seen] != CLOSED || owner != seen; seen = owner }
    od;
    atomic { done = false; seen = 0 }
}

inline take_locked(from)
{
    if
    :: !backlog[from] ->
       pending[from] = false;
       if
       :: inbox[from] != CLOSED -> atomic { backlog[from] = inbox[from]; inbox[from] = 0 }
       :: else
       fi
    :: else
    fi;
    taken = backlog[from];
    backlog[from] = false
}

inline inbox_take(me)
{
    lock(drain[me]);
    take_locked(me);
    unlock(drain[me])
}

inline slab_heap_collect(me)
{
    lock(lists[me]);
    if
    :: owner == me -> remote_collect(owner == me); taken = false
    :: else
    fi;
    unlock(lists[me]);
    if
    :: taken -> taken = false; send()
    :: else
    fi
}

/* Only its owner abandons a slab. */
inline drain_all(me)
{
    do
    :: pending[me] ->
       inbox_take(me);
       if
       :: taken -> slab_heap_collect(me)
       :: else
       fi
    :: else -> break
    od
}

inline inboxes_close(me)
{
#if FAULT == 2
    atomic { taken = (inbox[me] == 1); inbox[me] = CLOSED };
    lock(drain[me]);
#else
    lock(drain[me]);
    atomic { taken = (inbox[me] == 1); inbox[me] = CLOSED };
#endif
    backlog[me] = backlog[me] | taken;
    pending[me] = (pending[me] || taken);
    unlock(drain[me]);
    taken = false
}

inline abandoned_abandon()
{
    lock(abandoned_lock);
    owner = ABANDONED;
    list_abandoned_locked();
    unlock(abandoned_lock);
    release_if_all_free()
}

inline enter(me)
{
    lock(lists[me]);
    linked = true;
    unlock(lists[me])
}

inline abandoned_adopt(me)
{
    if
    :: listed ->
       lock(abandoned_lock);
       if
       :: listed -> atomic { listed = false; owner = me; got = 1 }
       :: else
       fi;
       unlock(abandoned_lock);
       if
       :: got -> enter(me); got = 0
       :: else
       fi
    :: else
    fi
}

inline cache_end(me)
{
    drain_all(me);
    inboxes_close(me);
    lock(lists[me]);
    opened[me] = false;
    if
    :: owner == me -> linked = false; abandoned_abandon()
    :: else
    fi;
    unlock(lists[me]);
    drain_all(me);
    assert(inbox[me] == CLOSED)
}

inline free_remote(block)
{
    atomic { assert(owner != NOBODY && !(marked & BIT(block)) && !(bits & BIT(block))); marked = marked | BIT(block) };
    atomic { assert(owner != NOBODY); counted++; taken = !queued; queued = true };
    if
    :: taken -> taken = false; send()
    :: else
    fi
}

#define THREAD \
    byte seen, got, bin; \
    bool done, taken, all_free

/* Stays until all its blocks are back, or ends at any time; its number may serve another thread. */
proctype Owner()
{
    THREAD;
    bool stays;
    if
    :: stays = true
    :: true
    fi;
    do
    :: pending[OWNER] ->
       inbox_take(OWNER);
       if
       :: taken -> slab_heap_collect(OWNER)
       :: else
       fi
    :: IS_IDLE || !stays -> break
    od;
    cache_end(OWNER);
    if
    :: inbox[OWNER] = 0; opened[OWNER] = true; abandoned_adopt(OWNER); cache_end(OWNER)
    :: true
    fi;
    atomic { stays = false; ended++ }
}

inline claim()
{
#if FAULT == 4
    got = marked;
    marked = 0;
#else
    atomic { got = marked; marked = 0 };
#endif
    atomic { assert(!(in_bin & got) && !(bits & got)); bin = bin | got; in_bin = in_bin | got };
#if FAULT != 6
    atomic { counted = counted - COUNT(got) };
#endif
    skip
}

inline let_go() { atomic { assert(queued && owner != NOBODY); queued = false } }

/* If the owner seems to be awake, the thief does not try. */
inline take_queued()
{
    if
    :: true ->
#if FAULT == 8
       taken = true;
       owner = THIEF;
#else
       seen = owner;
       if
       :: seen == OWNER || seen == TAKER ->
          lock(lists[seen]);
          if
#if FAULT == 9
          :: opened[seen] && owner == seen -> assert(linked); linked = false; owner = THIEF; taken = true
#else
          :: opened[seen] && owner == seen && linked -> linked = false; owner = THIEF; taken = true
#endif
          :: else
          fi;
          unlock(lists[seen])
       :: else
       fi;
       seen = 0;
#endif
       skip
    :: true
    fi
}

inline steal_idle()
{
    take_queued();
    if
    :: taken -> taken = false; enter(THIEF); remote_collect(owner == THIEF)
    :: else -> steal_blocks()
    fi
}

inline steal_blocks()
{
    claim();
    if
#if FAULT != 3
    :: got == 0 -> send()
#endif
    :: else ->
       let_go();
       claim();
       if
       :: bin & 2 -> put_back(1) /* the bin is full */
       :: true
       fi
    fi;
    got = 0
}

inline put_back(block)
{
    atomic { bin = bin & ~BIT(block); in_bin = in_bin & ~BIT(block) };
#if FAULT == 7
    marked = marked | BIT(block)
#else
    free_remote(block)
#endif
}

/* If the lock is taken, it gives up. */
inline inbox_steal(from)
{
    if
    :: pending[from] ->
#if FAULT == 1
       take_locked(from);
#else
       if
       :: atomic { drain[from] == FREE -> drain[from] = _pid };
          take_locked(from);
          unlock(drain[from])
       :: drain[from] != FREE
       fi;
#endif
       if
       :: taken -> taken = false; steal_idle()
       :: else
       fi
    :: else
    fi
}

/* Uses and frees the stolen blocks. */
inline empty_bin(block)
{
    if
    :: bin & BIT(block) ->
#if FAULT == 5
       atomic { assert(owner == THIEF); bits = bits | BIT(block); bin = bin & ~BIT(block); in_bin = in_bin & ~BIT(block) }
#else
       if
       :: owner == THIEF ->
          atomic { assert(!(bits & BIT(block))); bits = bits | BIT(block); bin = bin & ~BIT(block); in_bin = in_bin & ~BIT(block) }
       :: else -> put_back(block)
       fi
#endif
    :: else
    fi
}

proctype Thief()
{
    THREAD;
    inbox[THIEF] = 0;
    opened[THIEF] = true;
    inbox_steal(OWNER);
    if
    :: true -> empty_bin(0); empty_bin(1); inbox_steal(OWNER)
    :: true -> abandoned_adopt(THIEF)
    fi;
    empty_bin(0);
    empty_bin(1);
    cache_end(THIEF);
    ended++
}

/* Frees both blocks. Then it takes the slab over because it has free blocks, whether it is in the owner's inbox or not. */
proctype Stranger()
{
    THREAD;
    inbox[TAKER] = 0;
    opened[TAKER] = true;
    free_remote(0);
    free_remote(1);
    lock(lists[OWNER]);
    if
    :: opened[OWNER] && owner == OWNER && linked && bits != 0 -> linked = false; owner = TAKER; got = 1
    :: else
    fi;
    unlock(lists[OWNER]);
    if
    :: got -> got = 0; enter(TAKER)
    :: else
    fi;
    cache_end(TAKER);
    ended++
}

init
{
    atomic { inbox[OWNER] = 0; opened[OWNER] = true; run Owner(); run Thief(); run Stranger() };
    ended == 3;
    assert(released == 1 && bits == ALL && marked == 0 && in_bin == 0 && !queued && counted == 0 && !listed);
    assert(!backlog[OWNER] && !backlog[THIEF] && !backlog[TAKER])
}
