/* Steal: what strangers freed for an owner that sleeps is taken by a thread that is short of it, while the owner takes too, ends,
 * and its number serves the next thread.
 *
 *   owner: takes, and closes its inbox at its end     thief: takes by try-lock, has the blocks for a while, frees them; may adopt
 *   stranger: posts one block after the other; what is refused it delivers
 *
 * Code     `hk_inbox_steal()`, `hk_inbox_take()`, `take_locked()`, `take_inbox()`, `hk_inboxes_close()`, `prepend()`,
 *          `hk_inbox_open()`, `hk_inbox_post()` in `slab/owner.c`; `steal()`, `take_what_others_freed()`, `unpack()`,
 *          `receive()`, `drain_all()`, `hk_cache_end()` in `front/cache.c`; `hk_blocks_give()`, `give_blocks()`,
 *          `hk_blocks_abandon()` in `tiers/blocks.c`; `hk_deliver()` in `slab/outbox.c`; `hk_registry_adopt()`,
 *          `hk_registry_free()`, `hk_registry_abandon()` in `slab/registry.c`
 * Shows    no parcel is lost, unseen or unpacked twice; what is stolen comes home when it is freed again, whoever has its slab by
 *          then; an inbox that is closed stays closed; in the end the slab is released, once; nobody waits for ever
 * Not      the order of stores (handover.pml); how long an owner must have slept: a thief that thinks it asleep may be wrong
 * Threads  3
 * Fault 1, assertion: a thief takes without the lock
 * Fault 2, assertion: the inbox is closed before the lock is taken: a thief opens it again
 * Fault 3, assertion: the lock is taken to close only if something came
 * Fault 4, end: what stays in the backlog is not announced again
 * Fault 5, assertion: a thief gives what it stole to the slab itself
 * Fault 6, end: the inbox is emptied before the bit is cleared
 * Fault 7, assertion: who takes does not look whether the inbox is closed */
#include "common.pml"

#define NOBODY 0
#define OWNER 1
#define THIEF 2
#define ORPHAN 3
/* Blocks are 1 to BLOCKS, each a parcel of its own; 0 is NULL. */
#define BLOCKS 3
#define CLOSED 9
#define BIT(block) (1 << (block))
#define ALL (BIT(1) | BIT(2) | BIT(3))

byte route = OWNER;
byte bits;              /* free in the slab */
byte next[BLOCKS + 1];
byte inbox[3] = CLOSED, backlog[3];
bool pending[3];
byte drain[3] = FREE;
byte registry = FREE;
bool listed;
byte in_bin;            /* of the owner or the thief */
byte released, ended;

inline slab_give(holder)
{
    atomic { assert(holder && !(bits & BIT(block)) && !(in_bin & BIT(block))); bits = bits | BIT(block) }
}

inline slab_release() { atomic { assert(bits == ALL && route == ORPHAN); route = NOBODY; released++ } }

inline release_if_all_free()
{
    if
    :: all_free -> slab_release(); all_free = false
    :: else
    fi
}

inline registry_free()
{
    lock(registry);
    atomic {
        done = (route == ORPHAN);
        if
        :: done ->
           assert(!(bits & BIT(block)) && !(in_bin & BIT(block)));
           bits = bits | BIT(block);
           all_free = (bits == ALL);
           listed = !all_free
        :: else
        fi
    };
    unlock(registry);
    release_if_all_free()
}

inline inbox_post(to)
{
    head = inbox[to];
    do
    :: head == CLOSED -> break
    :: else ->
       next[block] = head;
       atomic {
           if
           :: inbox[to] == head -> inbox[to] = block; done = true; break
           :: else -> head = inbox[to]
           fi
       }
    od;
    if
    :: done && head == 0 -> pending[to] = true
    :: else
    fi;
    head = 0
}

inline deliver()
{
    seen = route;
    do
    :: assert(seen != NOBODY);
       if
       :: seen == ORPHAN -> registry_free()
       :: else -> inbox_post(seen)
       fi;
       if
       :: done -> break
       :: else
       fi;
       atomic { seen == ORPHAN || inbox[seen] != CLOSED || route != seen; seen = route }
    od;
    atomic { done = false; seen = 0 }
}

inline take_inbox(from)
{
#if FAULT != 6
    pending[from] = false;
#endif
    if
#if FAULT == 7
    :: true ->
#else
    :: inbox[from] != CLOSED ->
#endif
       atomic { backlog[from] = inbox[from]; inbox[from] = 0; assert(backlog[from] != CLOSED) }
    :: else
    fi;
#if FAULT == 6
    pending[from] = false
#endif
}

/* At most `most` parcels, from `got` on. */
inline take_locked(from)
{
    if
    :: backlog[from] == 0 -> take_inbox(from)
    :: else
    fi;
    atomic {
        got = backlog[from];
        if
        :: next[got] != 0 -> last = next[got] /* two */
        :: last = got                         /* one */
        fi
    };
    if
    :: got != 0 ->
       atomic { backlog[from] = next[last]; next[last] = 0; last = 0 };
#if FAULT != 4
       if
       :: backlog[from] != 0 -> pending[from] = true
       :: else
       fi
#endif
    :: else
    fi
}

inline inbox_take(me)
{
    lock(drain[me]);
    take_locked(me);
    unlock(drain[me])
}

/* Who finds the lock taken goes on without. */
inline inbox_steal(from)
{
    if
    :: pending[from] ->
#if FAULT == 1
       take_locked(from)
#else
       if
       :: atomic { drain[from] == FREE -> drain[from] = _pid };
          take_locked(from);
          unlock(drain[from])
       :: drain[from] != FREE
       fi
#endif
    :: else
    fi
}

/* Into the bin. */
inline unpack()
{
    atomic {
        do
        :: got != 0 ->
           last = next[got];
           assert(!(in_bin & BIT(got)) && !(bits & BIT(got)));
           in_bin = in_bin | BIT(got);
           bin = bin | BIT(got);
           got = last
        :: else -> break
        od;
        last = 0
    }
}

/* The blocks are given back, or the program had and frees them: mine, or delivered. */
inline empty_bin(me)
{
    do
    :: bin != 0 ->
       atomic {
           block = 1;
           do
           :: !(bin & BIT(block)) -> block++
           :: else -> break
           od;
           bin = bin & ~BIT(block);
           in_bin = in_bin & ~BIT(block)
       };
#if FAULT == 5
       slab_give(route == me)
#else
       if
       :: route == me -> slab_give(route == me)
       :: else -> deliver()
       fi
#endif
    :: else -> break
    od;
    block = 0
}

/* At a thread's end no bin has room: what is drained goes to the slab at once. */
inline drain_all(me)
{
    do
    :: pending[me] -> inbox_take(me); unpack(); empty_bin(me)
    :: else -> break
    od
}

inline inbox_close(me)
{
#if FAULT == 2
    atomic { got = inbox[me]; inbox[me] = CLOSED };
    lock(drain[me]);
#elif FAULT == 3
    if
    :: inbox[me] == 0 -> atomic { got = inbox[me]; inbox[me] = CLOSED }
    :: else -> lock(drain[me]); atomic { got = inbox[me]; inbox[me] = CLOSED }
    fi;
#else
    lock(drain[me]);
    atomic { got = inbox[me]; inbox[me] = CLOSED };
#endif
    if
    :: got != 0 && got != CLOSED ->
       atomic {
           last = got;
           do
           :: next[last] != 0 -> last = next[last]
           :: else -> break
           od;
           next[last] = backlog[me];
           backlog[me] = got;
           last = 0
       };
       pending[me] = true
    :: else
    fi;
#if FAULT == 3
    if
    :: holds(drain[me]) -> unlock(drain[me])
    :: else
    fi;
#else
    unlock(drain[me]);
#endif
    got = 0
}

inline registry_abandon()
{
    lock(registry);
    atomic { route = ORPHAN; all_free = (bits == ALL); listed = (bits != 0 && !all_free) };
    unlock(registry);
    release_if_all_free()
}

inline registry_adopt(me)
{
    if
    :: listed ->
       lock(registry);
       if
       :: listed -> atomic { listed = false; route = me }
       :: else
       fi;
       unlock(registry)
    :: else
    fi
}

inline cache_end(me)
{
    drain_all(me);
    empty_bin(me);
    inbox_close(me);
    if
    :: route == me -> registry_abandon()
    :: else
    fi;
    drain_all(me);
    assert(inbox[me] == CLOSED)
}

#define THREAD \
    byte bin, block, got, last, head, seen; \
    bool done, all_free

/* It stays until all its blocks are home, or ends when it likes; its number may serve another thread. */
proctype Owner()
{
    THREAD;
    bool stays;
    if
    :: stays = true
    :: true
    fi;
    do
    :: pending[OWNER] -> inbox_take(OWNER); unpack(); empty_bin(OWNER)
    :: bits == ALL || !stays -> break
    od;
    cache_end(OWNER);
    if
    :: inbox[OWNER] = 0; registry_adopt(OWNER); cache_end(OWNER)
    :: true
    fi;
    atomic { stays = false; ended++ }
}

/* What it stole waits in its bin, or is used and freed before it looks again. */
proctype Thief()
{
    THREAD;
    inbox_steal(OWNER);
    unpack();
    if
    :: true -> empty_bin(THIEF); inbox_steal(OWNER); unpack()
    :: true -> registry_adopt(THIEF)
    fi;
    cache_end(THIEF);
    ended++
}

proctype Stranger()
{
    byte block = 1, head, seen;
    bool done, all_free;
    do
    :: block <= BLOCKS -> deliver(); block++
    :: else -> break
    od;
    atomic { block = 0; ended++ }
}

init
{
    atomic { inbox[OWNER] = 0; inbox[THIEF] = 0; run Owner(); run Thief(); run Stranger() };
    ended == 3;
    assert(released == 1 && bits == ALL && in_bin == 0 && !listed);
    assert(backlog[OWNER] == 0 && backlog[THIEF] == 0)
}
