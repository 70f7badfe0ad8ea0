/* Idle inboxes: a thread purges the pages of remote frees for an owner that sleeps, while the owner wakes.
 *
 *   trimmer: takes the slab out; once or more often, claims marked blocks, purges a page if all blocks on it are claimed, marks the
 *   blocks again, and counts them; sends the slab on       owner: collects, takes blocks, uses them, frees them       stranger: marks, counts, queues
 *
 * Code     `purge_slab()`, `visit_inbox()` in `slab/idle.c`; `hk_slab_purge_claimed()` in `slab/slab_purge.c`;
 *          `hk_inbox_steal()`, `hk_inbox_take()`, `hk_inbox_push()` in `slab/owner.c`; `hk_remote_claim()`, `hk_remote_put_back()`, `hk_remote_mark()`,
 *          `hk_remote_count()`, `hk_remote_collect()` in `slab/remote.c`; `hk_send()` in `slab/outbox.c`; `hk_slab_all_free()` in
 *          `slab/remote.h`
 * Shows    no page with a block in use is purged, although no lock is held; the blocks come back, each once; the slab is
 *          released when all have, and no thread touches it afterwards
 * Not      closed inboxes and abandoned slabs (ending.pml), thieves (steal.pml): for those, a trimmer is another thread that takes
 *          slabs out and sends them on
 * Threads  3
 * Fault 1, assertion: a page is purged whose blocks are only marked, not claimed
 * Fault 2, assertion: a page is purged of which only one block is claimed
 * Fault 3, assertion: the blocks are marked again before the purge
 * Fault 4, end: blocks that are marked again are not counted
 * Fault 5, end: the slab is unqueued instead of sent on if no block was claimed
 * Fault 6, end: the slab is not sent on */
#include "common.pml"

#define BIT(n) (1 << (n))
#define COUNT(bits) (((bits) & 1) + ((bits) / 2 & 1))
/* Blocks 0 and 1, on one page. */
#define ALL 3

byte bits;         /* free in the slab */
byte used = ALL;   /* in use: the program has written to them */
byte marked;
short counted;
bool queued, inbox, gone;
byte ended;

inline mark(which) { atomic { assert(!gone && !(marked & (which)) && !(bits & (which))); marked = marked | (which) } }
inline count(which) { atomic { assert(!gone); counted = counted + COUNT(which); first = !queued; queued = true } }
inline send() { atomic { assert(!gone && queued && !inbox); inbox = true } }

inline free_remote(which)
{
    atomic { used = used & ~(which); mark(which) };
    count(which);
    if
    :: first -> send()
    :: else
    fi
}

/* One after the other, or both as one word. */
proctype Stranger()
{
    bool first;
    if
    :: free_remote(1); free_remote(2)
    :: free_remote(3)
    fi;
    ended++
}

proctype Trimmer()
{
    bool first;
    byte got, turns;
    bool again;
    do
    :: turns < 2 ->
       if
       :: atomic { inbox -> inbox = false; again = true };
claim:
          atomic {
              got = marked;
#if FAULT != 1
              marked = 0
#endif
          };
          counted = counted - COUNT(got);
#if FAULT == 3
          mark(got);
#endif
          if
#if FAULT == 2
          :: got != 0 -> assert(!used)
#else
          :: got == ALL -> assert(!used)
#endif
          :: else
          fi;
          if
          :: got != 0 ->
#if FAULT == 1
             skip;
#elif FAULT != 3
             mark(got);
#endif
#if FAULT == 4
             skip
#else
             count(got);
             assert(!first)
#endif
          :: else
          fi;
          if
          :: again -> again = false; goto claim
          :: again = false
          fi;
#if FAULT == 5
          if
          :: got == 0 -> atomic { assert(!gone); queued = false }
          :: else -> send()
          fi
#elif FAULT != 6
          send()
#endif
       :: !inbox
       fi;
       turns++
    :: else -> break
    od;
    atomic { got = 0; turns = 0; again = false; ended++ }
}

inline collect()
{
    queued = false;
    atomic { got = marked; marked = 0 };
    atomic { assert(!(bits & got)); bits = bits | got };
    counted = counted - COUNT(got);
    got = 0;
    atomic {
        if
        :: bits == ALL && !queued && counted == 0 && reused -> gone = true
        :: else
        fi
    }
}

/* Uses a block that came back once more, and frees it. */
proctype Owner()
{
    byte got;
    bool reused;
    do
    :: !gone ->
       if
       :: atomic { inbox -> inbox = false }; collect()
       :: atomic { !reused && (bits & 1) -> bits = bits & ~1; used = used | 1; reused = true };
          atomic { assert(!(bits & 1)); used = used & ~1; bits = bits | 1 };
          atomic {
              if
              :: bits == ALL && !queued && counted == 0 -> gone = true
              :: else
              fi
          }
       fi
    :: else -> break
    od;
    atomic { reused = false; ended++ }
}

init
{
    atomic { run Owner(); run Stranger(); run Trimmer() };
    ended == 3;
    assert(bits == ALL && marked == 0 && counted == 0 && !queued && !inbox)
}
