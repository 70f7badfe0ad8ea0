/* Handover: blocks that strangers free reach their owner, each once, and whole.
 *
 *   two strangers: a parcel is filled, posted by one CAS, announced by a bit     the owner: bit, exchange, backlog, unpack
 *
 * Code     `hk_parcel_new()`, `hk_parcel_drop()`, `hk_inbox_post()`, `take_inbox()`, `take_locked()`, `hk_inbox_take()` in
 *          `slab/owner.c`; `send()` in `slab/outbox.c`; `unpack()` and `drain_some()` in `front/cache.c`
 * Shows    no parcel is lost, unseen, or unpacked twice; what it holds is visible to who takes it; hk_remote_blocks comes out
 *          at 0; a parcel that is used again while a stranger is about to post (A-B-A) does no harm
 * Not      closed inboxes (ending.pml), thieves and the drain lock (steal.pml), routes (routes.pml). Here the owner alone takes:
 *          it needs no lock, and one would only make more visible
 * Threads  3
 * Fault 1, end: the bit is set before the parcel is in the inbox
 * Fault 2, end: the inbox is emptied before the bit is cleared
 * Fault 3, assertion: the parcel is posted by a relaxed exchange
 * Fault 4, end: what stays in the backlog is not announced again
 * Fault 5, end: the inbox is emptied by a load and a store
 * Fault 6, assertion: how many blocks a parcel has is read after it was posted
 * Fault 7, end: only the first stranger who ever posts sets the bit */
#define THREADS 3
#define PARCELS 2
#define CARGOES 3
#define WORDS (2 * PARCELS)
#include "common.pml"

/* Parcels are 1 and 2; 0 is NULL. A cargo is what one parcel carries: so many blocks. */
#define NEXT(parcel) ((parcel) - 1)
#define CARGO(parcel) (PARCELS + (parcel) - 1)
#define BLOCKS(cargo) (1 + (cargo) % 2)

byte inbox;    /* owner.xinbox[class] */
bool pending;  /* the class's bit in owner.xpending */
byte backlog;
bool used[PARCELS + 1];
short remote;  /* hk_remote_blocks[class] */
byte arrived, ended;
bool here[CARGOES];
bool announced;

inline parcel_new(parcel)
{
    if
    :: atomic { !used[1] -> used[1] = true; parcel = 1 }
    :: atomic { !used[2] -> used[2] = true; parcel = 2 }
    fi
}

inline parcel_drop(parcel) { atomic { release(); used[parcel] = false } }

inline inbox_post(parcel)
{
    blocks = BLOCKS(load(CARGO(parcel)));
    head = inbox;
    do
    :: store(NEXT(parcel), head);
#if FAULT == 1
       if
       :: head == 0 -> pending = true
       :: else
       fi;
#endif
       atomic {
#if FAULT != 3
           release();
#endif
           if
           :: inbox == head -> inbox = parcel; break
           :: else -> head = inbox
           fi
       }
    od;
#if FAULT == 7
    if
    :: head == 0 && !announced -> announced = true; pending = true
    :: else
    fi;
#elif FAULT != 1
    if
    :: head == 0 -> pending = true
    :: else
    fi;
#endif
#if FAULT == 6
    blocks = BLOCKS(load(CARGO(parcel)));
#endif
    remote = remote + blocks
}

/* A full parcel is sent. */
proctype Stranger(byte cargo, last)
{
    byte parcel, head, blocks;
    do
    :: cargo <= last ->
       parcel_new(parcel);
       store(CARGO(parcel), cargo);
       inbox_post(parcel);
       cargo++
    :: else -> break
    od;
    ended++
}

inline take_inbox()
{
#if FAULT == 2
    atomic { backlog = inbox; inbox = 0 };
    pending = false
#elif FAULT == 5
    pending = false;
    backlog = inbox;
    inbox = 0
#else
    pending = false;
    atomic { backlog = inbox; inbox = 0 }
#endif
}

/* At most `most` parcels, from `first` on. */
inline inbox_take(most)
{
    if
    :: backlog == 0 -> take_inbox()
    :: else
    fi;
    first = backlog;
    last = first;
    if
    :: first != 0 ->
       atomic {
           do
           :: most > 1 && load(NEXT(last)) != 0 -> last = load(NEXT(last)); most--
           :: else -> break
           od;
           backlog = load(NEXT(last));
           store(NEXT(last), 0)
       };
#if FAULT != 4
       if
       :: backlog != 0 -> pending = true
       :: else
       fi
#endif
    :: else
    fi
}

inline unpack()
{
    do
    :: first != 0 ->
       atomic {
           last = load(NEXT(first));
           cargo = load(CARGO(first));
           assert(cargo < CARGOES && !here[cargo]);
           here[cargo] = true;
           arrived++;
           remote = remote - BLOCKS(cargo)
       };
       parcel_drop(first);
       first = last
    :: else -> break
    od;
    last = 0; cargo = 0
}

/* Looks only when there is something to see: what nobody announces, it waits for in vain. */
proctype Owner()
{
    byte first, last, cargo, most;
    do
    :: arrived < CARGOES ->
       pending;
       if
       :: most = 1
       :: most = 2
       fi;
       inbox_take(most);
       unpack()
    :: else -> break
    od;
    ended == 2;
    assert(remote == 0 && inbox == 0 && backlog == 0)
}

init
{
    atomic {
        byte parcel = 1;
        do
        :: parcel <= PARCELS -> memory[CARGO(parcel)] = CARGOES; parcel++
        :: else -> break
        od;
        run Owner(); run Stranger(0, 1); run Stranger(2, 2); run Memory()
    }
}
