/* Sleepers: who gives back the pages of what strangers freed, while the slab's owner comes after all.
 *
 *   trimmer: takes the slab out, claims what is marked, gives back the page if all that lies on it is claimed, marks it again, counts
 *   it, and sends the slab on       owner: collects, takes blocks, uses them, frees them       stranger: marks, counts, queues
 *
 * Code     `purge_slab()`, `put_back()`, `visit_inbox()` in `slab/idle_inboxes.c`; `hk_slab_purge_claimed()` in `slab/slab_purge.c`;
 *          `hk_inbox_take_one()`, `hk_inbox_take()`, `hk_inbox_push()` in `slab/owner.c`; `hk_remote_claim()`, `hk_remote_mark()`,
 *          `hk_remote_count()`, `hk_remote_collect()` in `slab/remote.c`; `hk_send()` in `slab/outbox.c`; `hk_slab_all_free()` in
 *          `slab/remote.h`
 * Shows    no page goes that a block in use lies on, though nobody holds a lock; the blocks come home, each once; the slab goes when
 *          all is home, and nobody touches it then
 * Not      closed inboxes and orphans (ending.pml), thieves (steal.pml): to those a trimmer is one more who takes out and sends on
 * Threads  3
 * Fault 1, assertion: a page goes that is only marked, not claimed
 * Fault 2, assertion: a page goes of which one block is claimed
 * Fault 3, assertion: the blocks are marked again before the page goes
 * Fault 4, end: what is put back is not counted
 * Fault 5, end: the slab is let go of, not sent on, when nothing was claimed
 * Fault 6, end: the slab is not sent on */
#include "common.pml"

#define BIT(n) (1 << (n))
#define COUNT(bits) (((bits) & 1) + ((bits) / 2 & 1))
/* Blocks 0 and 1, on one page. */
#define ALL 3

byte bits;         /* free in the slab */
byte used = ALL;   /* with the program, which has written to them */
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
    do
    :: turns < 2 ->
       if
       :: atomic { inbox -> inbox = false };
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
    atomic { got = 0; turns = 0; ended++ }
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

/* A block that has come home is used once more, and freed by the owner itself. */
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
