/* Spans: whose address is this? Mappings come and go, and the kernel gives an address to somebody else the moment it is free:
 * to HAKMEM again, or to the program's own mmap, whose addresses the map must say nothing about.
 *
 * Code     `map_new()` in `big/big.c`, `map_covered()`, `hk_big_enter()`, `hk_big_unmap()` in `big/big_mapping.c`; `hk_descriptor_new()`,
 *          `hk_descriptor_drop()` in `span/descriptor.c`; `hk_big_at()` in `big/big_block.h`; `hk_page_map_cover()`, `hk_page_map_assign()`,
 *          `hk_page_map_set()` in `span/page_map.c`; `cover_locked()`, `cover_flat()`, `cover_alone()`, `enter_leaf()` in `span/page_map.c`;
 *          `hk_page_map_lookup()` in `span/page_map.h`
 * Shows    a block in use has its own page map entry, number and descriptor; what the program has mapped itself has no page map entry; no word
 *          of the map is written before it is writable; a mapping that the system will not take back is found as before
 * Not      units of the heap (purge.pml)
 * Threads  3
 * Fault 1, assertion: the page map entry goes after the mapping
 * Fault 2, assertion: a mapping that stays has lost its page map entry
 * Fault 3, assertion: a leaf is entered before its tables are mapped
 * Fault 4, assertion: the descriptor is dropped before the mapping goes
 * Fault 5, assertion: the page map entry is written before its leaf is covered */
#include "common.pml"

#define ADDRESSES 2
#define NOBODY 0
#define PROGRAM 9

byte holder[ADDRESSES];  /* what the kernel knows */
bool writable, noted; /* the tables of the leaf that both addresses lie in; that it has been entered */
bool route[ADDRESSES];   /* nobody's, or a big block's */
byte number[ADDRESSES];
byte start[3] = ADDRESSES; /* of descriptors 1 and 2 */
bool used[3];
byte map_lock = FREE, slabs = FREE;
byte ended;

inline descriptor_new()
{
    lock(slabs);
    slab = (used[1] -> 2 : 1);
    assert(!used[slab]);
    used[slab] = true;
    unlock(slabs)
}

inline descriptor_drop()
{
    start[slab] = ADDRESSES;
    lock(slabs);
    used[slab] = false;
    unlock(slabs)
}

/* Wherever the kernel has room: there is room for two, and three who want it. */
inline map(who)
{
    if
    :: atomic { holder[0] == NOBODY -> holder[0] = who; at = 0 }
    :: atomic { holder[1] == NOBODY -> holder[1] = who; at = 1 }
    fi
}

/* The system may refuse the tables. */
inline map_cover()
{
    lock(map_lock);
    covered = false;
    if
    :: noted -> covered = true
#if FAULT == 3
    :: !noted -> noted = true; unlock(map_lock); lock(map_lock); writable = true; covered = true
#else
    :: !noted -> writable = true; noted = true; covered = true
#endif
    :: !noted
    fi;
    unlock(map_lock)
}

inline map_assign()
{
    assert(writable);
    number[at] = slab;
    route[at] = true
}

inline check_mine() { assert(route[at] && number[at] == slab && start[slab] == at && holder[at] == _pid) }

/* The system may refuse; then the block stays in the cache, and is used again. */
inline hk_big_unmap()
{
#if FAULT != 1
    route[at] = false;
#endif
#if FAULT == 4
    descriptor_drop();
#endif
    if
    :: assert(start[slab] == at && holder[at] == _pid);
       holder[at] = NOBODY;
       gone = true
    :: assert(start[slab] == at && holder[at] == _pid);
#if FAULT != 2
       route[at] = true;
#endif
       check_mine()
    fi;
#if FAULT == 1
    route[at] = false;
#endif
#if FAULT != 4
    if
    :: gone -> descriptor_drop()
    :: else
    fi
#endif
}

proctype Big()
{
    byte at, slab, turn;
    bool covered, gone;
    do
    :: turn < 2 ->
       descriptor_new();
       map(_pid);
#if FAULT == 5
       map_assign();
#endif
       map_cover();
       if
       :: covered ->
          start[slab] = at;
#if FAULT != 5
          map_assign();
#endif
          gone = false;
          do
          :: !gone -> check_mine(); hk_big_unmap()
          :: else -> break
          od
       :: else -> holder[at] = NOBODY; descriptor_drop()
       fi;
       turn++
    :: else -> break
    od;
    ended++
}

/* The program's own mappings: its addresses are not HAKMEM's. */
proctype Program()
{
    byte at, turn;
    do
    :: turn < 2 ->
       map(PROGRAM);
       assert(!route[at]);
       assert(!route[at] && holder[at] == PROGRAM);
       holder[at] = NOBODY;
       turn++
    :: else -> break
    od;
    ended++
}

init
{
    atomic { run Big(); run Big(); run Program() };
    ended == 3;
    assert(!route[0] && !route[1] && !used[1] && !used[2])
}
