/* Fork: what the child gets while other threads are at work. The kernel copies page by page, each at its own moment.
 *
 *   forker: stream lock, all locks, copy; parent: locks open again; child: queues and counts anew from the bits, orphans, recount
 *   worker: frees a block of the forker's, collects in its own slab, fills or sheds its bin, adopts under the orphans' lock or
 *   writes to a stream       poster: frees another block of the forker's
 *
 * Code     `fork_prepare()`, `fork_parent()`, `fork_child()` in `runtime/fork.c`; `hk_locks_take_all()`,
 *          `hk_locks_drop_all()`, `hk_locks_reset_all()` in `base/lock.c`; `hk_tcaches_fork_child()`, `bury()` in `tcache/ending.c`;
 *          `hk_orphans_fork_prepare()`, `hk_orphans_orphan_rest()`, `orphan()`, `hk_orphans_adopt()` in `slab/orphans.c`;
 *          `hk_slab_recount()` in `slab/slab_life.c`; `hk_slab_alloc()` in `slab/slab.c`; `hk_slab_mark_free()` in `slab/slab.h`; `hk_remote_mark()`,
 *          `hk_remote_count()`, `hk_remote_collect()`, `hk_remote_restart()`, `hk_remote_merge()` in `slab/remote.c`;
 *          `hk_inbox_push()`, `hk_inboxes_restart()` in `slab/owner.c`; `hk_send()` in `slab/outbox.c`; `hk_bin_flush()` in
 *          `tcache/bins.c`
 * Shows    the parent and its threads go on; in the child, what a lock protects is whole, a block of the forker's that was free before
 *          the fork comes home, and none that is in use does; the count of free blocks fits the bitmap, a block that the program had
 *          before fork is taken in it and can be freed
 * Not      thieves and the background thread (bystanders.pml); data that the program itself changes without a lock during fork
 * Threads  3
 * Fault 1, assertion: the child believes what is queued
 * Fault 2, assertion: the child forgets what is marked
 * Fault 3, assertion: the child believes the count of free blocks
 * Fault 4, assertion: fork does not take the orphans' lock
 * Fault 5, end: fork takes the slabs' lock before the orphans'
 * Fault 6, end: fork takes its own locks before that of the streams
 * Fault 7, assertion: the child believes the bins of threads that it does not have
 * Fault 8, assertion: the child leaves their slabs to owners that it does not have
 * Fault 9, assertion: the child takes a bit that is in both of a slab's bitmaps for two blocks */
#include "common.pml"

#define ORPHAN 1
#define WORKER 3
#define BIT(n) (1 << (n))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))

byte streams = FREE, registry = FREE, slabs = FREE;
byte ended, home;

/* Each on a page of its own. */
byte marked;             /* the forker's slab: blocks 0 and 1 are others', block 2 is with the forker */
bool queued, inbox;      /* that slab: as marked, and in the forker's inbox */
byte bits = 2, free = 1; /* the worker's slab: block 0 is in its bin, block 1 is free in it, */
byte theirs = 4;         /* and block 2 is marked */
byte bin = 1;
byte route = WORKER;     /* of that slab */
bool listed = true;      /* an orphan slab */
byte orphan_route = ORPHAN;
byte shared;             /* blocks of the worker's that the program has, as the forker knows */

/* The child's copies. */
byte c_marked, c_bits, c_free, c_theirs, c_bin, c_route, c_orphan_route, c_known, c_home;
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

/* Into its own slab, what strangers freed. */
inline collect()
{
    atomic { got = theirs; theirs = 0 };
    bits = bits | got;
    free = free + COUNT(got)
}

/* Takes block 1 from the slab, or gives the bin's back. */
inline take() { bits = bits & ~2; free = free - 1; bin = bin | 2 }
inline shed() { bits = bits | 1; free = free + 1; bin = bin & ~1 }

/* A block from the bin becomes the program's. */
inline hand_out() { atomic { bin = bin & ~1; shared = shared | 1 } }

inline adopt()
{
    lock(registry);
    listed = false;
    lock(slabs);
    unlock(slabs);
    orphan_route = WORKER;
    unlock(registry)
}

/* The C library's lock of all streams is held over a call of malloc. */
inline flush_streams()
{
    lock(streams);
    lock(registry);
    unlock(registry);
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
    :: shed()
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
    lock(registry)
#elif FAULT == 4
    lock(slabs)
#else
    lock(registry);
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
#if FAULT == 1 /* else it is not believed, whatever it says */
    :: page(1, queued, c_queued)
    :: page(2, inbox, c_inbox)
#endif
    :: page(3, bits, c_bits)
    :: page(4, free, c_free)
    :: page(5, theirs, c_theirs)
    :: page(6, bin, c_bin)
    :: page(7, route, c_route)
    :: page(8, listed, c_listed)
    :: page(9, orphan_route, c_orphan_route)
#if FAULT == 1
    :: copied == 1023 -> break
#else
    :: copied == 1017 -> break
#endif
    od
}

/* Alone in its process: one step. */
inline child()
{
    d_step {
        assert(c_listed == (c_orphan_route == ORPHAN));
#if FAULT == 2
        c_marked = 0;
#endif
#if FAULT != 1
        c_queued = (c_marked != 0);
        c_inbox = c_queued;
#endif
        /* It drains: what is in an inbox comes home, and what has been freed does; then the rest is freed, and comes too. */
        if
        :: c_inbox -> c_home = c_marked; c_marked = 0; c_queued = false; c_inbox = false
        :: else
        fi;
        assert((before & ~c_home) == 0 && !(c_home & 4));
        assert(!c_queued);
#if FAULT != 8
        c_route = ORPHAN;
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
        /* It frees what it had from the worker. */
        assert(c_known == 0 || (c_route == ORPHAN && !(c_bits & c_known)));
        c_marked = 0; c_queued = false; c_inbox = false; c_home = 0; c_theirs = 0; c_bits = 0; c_free = 0; c_bin = 0; c_route = 0;
        c_orphan_route = 0; c_known = 0; c_listed = false; copied = 0; before = 0
    }
}

inline parent()
{
    unlock(slabs);
#if FAULT != 4
    unlock(registry);
#endif
    unlock(streams)
}

/* It forks, and waits for its blocks. */
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
