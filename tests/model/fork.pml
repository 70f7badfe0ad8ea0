/* Fork: what the child gets while other threads are at work. The kernel copies page by page, each at its own moment.
 *
 *   forker: stream lock, its inbox closed, all locks, copy; parent: locks and inbox open again; child: orphans, recount
 *   worker: frees a block of the forker's, fills or sheds its bin, adopts under the registry's lock or writes to a stream
 *   poster: frees another block of the forker's
 *
 * Code     `fork_prepare()`, `fork_parent()`, `fork_child()` in `api/life.c`; `hk_caches_fork_prepare()`,
 *          `hk_caches_fork_parent()`, `hk_caches_fork_child()`, `bury()`, `reopen_inboxes()` in `front/cache.c`;
 *          `hk_registry_fork_prepare()`, `hk_registry_orphan_rest()`, `hk_registry_adopt()` in `slab/registry.c`;
 *          `hk_slab_recount()`, `hk_slab_take()` in `slab/slab.c`; `hk_slab_give_run()` in `slab/slab.h`; `hk_inbox_post()`,
 *          `hk_inboxes_close()`, `hk_inbox_forget()` in `slab/owner.c`; `hk_deliver()` in `slab/outbox.c`; `hk_bin_shed()` in
 *          `front/bins.c`
 * Shows    the parent and its threads go on; in the child, what a lock protects is whole, the forker's parcels are whole, the
 *          count of free blocks fits the bitmap, a block that the program had before fork is taken in it and can be freed
 * Not      thieves and the background thread (bystanders.pml); data that the program itself changes without a lock during fork
 * Threads  3
 * Fault 1, assertion: the forker's inbox stays open while memory is copied
 * Fault 2, end: the parent leaves its inbox closed
 * Fault 3, assertion: the child believes the count of free blocks
 * Fault 4, assertion: fork does not take the registry's lock
 * Fault 5, end: fork takes the slabs' lock before the registry's
 * Fault 6, end: fork takes its own locks before that of the streams
 * Fault 7, assertion: the child believes the bins of threads that it does not have
 * Fault 8, assertion: the child leaves their slabs to owners that it does not have */
#include "common.pml"

#define ORPHAN 1
#define WORKER 3
#define CLOSED 128
#define BIT(n) (1 << (n))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1))

byte streams = FREE, registry = FREE, slabs = FREE;
byte ended, home;

/* Each on a page of its own. */
byte inbox, backlog;     /* the forker's: bit n is parcel n */
bool filled[2];          /* what parcel n carries has been written */
byte bits = 2, free = 1; /* the worker's slab: block 0 is in its bin, block 1 is free in it */
byte bin = 1;
byte route = WORKER;     /* of that slab */
bool listed = true;      /* an orphan slab */
byte orphan_route = ORPHAN;
byte shared;             /* blocks of the worker's that the program has, as the forker knows */

/* The child's copies. */
byte c_inbox, c_backlog, c_bits, c_free, c_bin, c_route, c_orphan_route, c_known;
bool c_filled[2], c_listed;
byte copied;

/* A block of the forker's; refused, it looks again when the inbox may be open. */
inline post(parcel)
{
    filled[parcel] = true;
    do
    :: inbox != CLOSED ->
       atomic {
           if
           :: inbox != CLOSED -> inbox = inbox | BIT(parcel); break
           :: else
           fi
       }
    od
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
    post(0);
    if
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
    post(1);
    ended++
}

inline prepare()
{
#if FAULT != 6
    lock(streams);
#endif
#if FAULT != 1
    atomic { backlog = inbox; inbox = CLOSED };
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
    :: atomic { !(copied & BIT(0)) -> c_inbox = inbox; c_backlog = backlog; copied = copied | BIT(0) }
    :: atomic { !(copied & BIT(1)) -> c_filled[0] = filled[0]; c_filled[1] = filled[1]; copied = copied | BIT(1) }
    :: page(2, bits, c_bits)
    :: page(3, free, c_free)
    :: page(4, bin, c_bin)
    :: page(5, route, c_route)
    :: page(6, listed, c_listed)
    :: page(7, orphan_route, c_orphan_route)
    :: copied == 255 -> break
    od
}

/* Alone in its process: one step. */
inline child()
{
    d_step {
        assert(c_listed == (c_orphan_route == ORPHAN));
        assert(!(c_backlog & 1) || c_filled[0]);
        assert(!(c_backlog & 2) || c_filled[1]);
        assert(c_inbox == CLOSED || ((!(c_inbox & 1) || c_filled[0]) && (!(c_inbox & 2) || c_filled[1])));
#if FAULT != 8
        c_route = ORPHAN;
#endif
#if FAULT != 3
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
        c_inbox = 0; c_backlog = 0; c_bits = 0; c_free = 0; c_bin = 0; c_route = 0; c_orphan_route = 0; c_known = 0;
        c_filled[0] = false; c_filled[1] = false; c_listed = false; copied = 0
    }
}

inline parent()
{
    unlock(slabs);
#if FAULT != 4
    unlock(registry);
#endif
#if FAULT != 2 && FAULT != 1
    inbox = 0;
#endif
    unlock(streams)
}

/* It forks, and waits for its blocks. */
proctype Forker()
{
    c_known = shared;
    prepare();
    copy_pages();
    child();
    parent();
    do
    :: home != 3 ->
       (inbox != 0 && inbox != CLOSED) || backlog != 0;
       atomic { home = home | backlog; backlog = 0 };
       atomic {
           if
           :: inbox != CLOSED -> home = home | inbox; inbox = 0
           :: else
           fi
       }
    :: else -> break
    od;
    ended++
}

init
{
    atomic { run Forker(); run Worker(); run Poster() };
    ended == 3
}
