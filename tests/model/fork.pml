/* Fork: the state that the child gets while other threads run. The kernel copies page by page, each at its own moment.
 *
 *   forker: takes the stream lock and all locks, copies; parent: opens the locks; child: rebuilds queues and counts from the bits,
 *   makes other threads' slabs abandoned slabs, counts their free blocks
 *   worker: frees a block of the forker's, collects in its own slab, fills or flushes its bin, adopts under the abandoned slabs' lock or
 *   writes to a stream       poster: frees another block of the forker's
 *
 * Code     `fork_prepare()`, `fork_parent()`, `fork_child()` in `runtime/lifecycle.c`; `hk_locks_take_all()`,
 *          `hk_locks_drop_all()`, `hk_locks_reset_all()` in `base/lock.c`; `hk_tcaches_fork_child()`, `forget_cache()` in `tcache/ending.c`;
 *          `hk_abandoned_fork_prepare()`, `hk_abandoned_add_rest()`, `abandon_unless_of()`, `hk_abandoned_adopt()` in `slab/abandoned.c`;
 *          `hk_slab_recount()` in `slab/slab_life.c`; `hk_slab_alloc()` in `slab/slab.c`; `hk_slab_mark_free()` in `slab/slab.h`; `hk_remote_mark()`,
 *          `hk_remote_count()`, `hk_remote_collect()`, `hk_remote_restart()`, `hk_remote_merge()` in `slab/remote.c`;
 *          `hk_inbox_push()`, `hk_owners_fork_child()` in `slab/owner.c`; `hk_send()` in `slab/outbox.c`; `hk_bin_flush()` in
 *          `tcache/bins.c`
 * Shows    the parent and its threads go on; in the child, data under a lock is whole; a block of the forker's that was free
 *          before the fork comes back, and no block in use does; the count of free blocks fits the bitmap; a block that the
 *          program had before the fork is taken in the bitmap and can be freed
 * Not      thieves and the background thread (bystanders.pml); data that the program changes without a lock during fork
 * Threads  3
 * Fault 1, assertion: the child believes the queues
 * Fault 2, assertion: the child drops the marks
 * Fault 3, assertion: the child believes the count of free blocks
 * Fault 4, assertion: fork does not take the abandoned slabs' lock
 * Fault 5, end: fork takes the slabs' lock before the abandoned slabs' lock
 * Fault 6, end: fork takes its own locks before the lock of the streams
 * Fault 7, assertion: the child believes the bins of threads that do not exist
 * Fault 8, assertion: the child leaves their slabs to owners that do not exist
 * Fault 9, assertion: the child counts a bit that is in both bitmaps of a slab as two blocks */
#include "common.pml"

#define ABANDONED 1
#define WORKER 3
#define BIT(n) (1 << (n))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))

byte streams = FREE, abandoned_lock = FREE, slabs = FREE;
byte ended, home;

/* Each on a page of its own. */
byte marked;             /* the forker's slab: blocks 0 and 1 are others', block 2 is with the forker */
bool queued, inbox;      /* that slab: as marked, and in the forker's inbox */
byte bits = 2, free = 1; /* the worker's slab: block 0 is in its bin, block 1 is free in it, */
byte theirs = 4;         /* and block 2 is marked */
byte bin = 1;
byte entry = WORKER;     /* of that slab */
bool listed = true;      /* an abandoned slab */
byte abandoned_entry = ABANDONED;
byte shared;             /* blocks of the worker's that the program has, as the forker knows */

/* The child's copies. */
byte c_marked, c_bits, c_free, c_theirs, c_bin, c_entry, c_abandoned_entry, c_known, c_home;
bool c_queued, c_inbox, c_listed;
short copied;

/* A block of the forker's. */
inline free_remote(block)
{
    marked = marked | BIT(block);
    atomic { first = !queued; queued = true };
    if
    :: first -> inbox = true
    :: else
    fi
}

/* Remote frees into its own slab. */
inline collect()
{
    atomic { got = theirs; theirs = 0 };
    bits = bits | got;
    free = free + COUNT(got)
}

/* Takes block 1 from the slab, or flushes the bin's block. */
inline take() { bits = bits & ~2; free = free - 1; bin = bin | 2 }
inline flush() { bits = bits | 1; free = free + 1; bin = bin & ~1 }

/* A block from the bin becomes the program's. */
inline hand_out() { atomic { bin = bin & ~1; shared = shared | 1 } }

inline adopt()
{
    lock(abandoned_lock);
    listed = false;
    lock(slabs);
    unlock(slabs);
    abandoned_entry = WORKER;
    unlock(abandoned_lock)
}

/* The C library's lock of all streams is held over a call of malloc. */
inline flush_streams()
{
    lock(streams);
    lock(abandoned_lock);
    unlock(abandoned_lock);
    unlock(streams)
}

proctype Worker()
{
    byte got;
    bool first;
    free_remote(0);
    if
    :: collect()
    :: take()
    :: flush()
    :: hand_out()
    fi;
    if
    :: adopt()
    :: flush_streams()
    fi;
    ended++
}

proctype Poster()
{
    bool first;
    free_remote(1);
    ended++
}

inline prepare()
{
#if FAULT != 6
    lock(streams);
#endif
#if FAULT == 5
    lock(slabs);
    lock(abandoned_lock)
#elif FAULT == 4
    lock(slabs)
#else
    lock(abandoned_lock);
    lock(slabs)
#endif
#if FAULT == 6
    ;
    lock(streams)
#endif
}

#define page(n, from, to) atomic { !(copied & BIT(n)) -> to = from; copied = copied | BIT(n) }

/* In any order. */
inline copy_pages()
{
    do
    :: page(0, marked, c_marked)
#if FAULT == 1 /* else the child does not believe it */
    :: page(1, queued, c_queued)
    :: page(2, inbox, c_inbox)
#endif
    :: page(3, bits, c_bits)
    :: page(4, free, c_free)
    :: page(5, theirs, c_theirs)
    :: page(6, bin, c_bin)
    :: page(7, entry, c_entry)
    :: page(8, listed, c_listed)
    :: page(9, abandoned_entry, c_abandoned_entry)
#if FAULT == 1
    :: copied == 1023 -> break
#else
    :: copied == 1017 -> break
#endif
    od
}

/* The only thread of its process: one step. */
inline child()
{
    d_step {
        assert(c_listed == (c_abandoned_entry == ABANDONED));
#if FAULT == 2
        c_marked = 0;
#endif
#if FAULT != 1
        c_queued = (c_marked != 0);
        c_inbox = c_queued;
#endif
        /* Drains: marked blocks come back; then frees the rest, which comes back too. */
        if
        :: c_inbox -> c_home = c_marked; c_marked = 0; c_queued = false; c_inbox = false
        :: else
        fi;
        assert((before & ~c_home) == 0 && !(c_home & 4));
        assert(!c_queued);
#if FAULT != 8
        c_entry = ABANDONED;
#endif
#if FAULT == 9
        c_free = COUNT(c_bits) + COUNT(c_theirs);
#endif
        c_bits = c_bits | c_theirs;
#if FAULT != 3 && FAULT != 9
        c_free = COUNT(c_bits);
#endif
#if FAULT == 7
        assert(!(c_bits & c_bin));
        c_bits = c_bits | c_bin;
        c_free = COUNT(c_bits);
#endif
        assert(c_free == COUNT(c_bits));
        /* Frees its block of the worker's slab. */
        assert(c_known == 0 || (c_entry == ABANDONED && !(c_bits & c_known)));
        c_marked = 0; c_queued = false; c_inbox = false; c_home = 0; c_theirs = 0; c_bits = 0; c_free = 0; c_bin = 0; c_entry = 0;
        c_abandoned_entry = 0; c_known = 0; c_listed = false; copied = 0; before = 0
    }
}

inline parent()
{
    unlock(slabs);
#if FAULT != 4
    unlock(abandoned_lock);
#endif
    unlock(streams)
}

/* Forks, and waits for its blocks. */
proctype Forker()
{
    byte before, got;
    atomic { c_known = shared; before = marked };
    prepare();
    copy_pages();
    child();
    parent();
    do
    :: home != 3 ->
       atomic { inbox -> inbox = false };
       queued = false;
       atomic { got = marked; marked = 0; home = home | got; got = 0 }
    :: else -> break
    od;
    ended++
}

init
{
    atomic { run Forker(); run Worker(); run Poster() };
    ended == 3
}
