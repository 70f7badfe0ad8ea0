/* Spans: mappings come and go, and the kernel gives an address to another mapping the moment it is free: to HAKMEM again, or to the
 * program's own mmap, whose addresses must have no page map entry.
 *
 * Code     `map_new()` in `large/large.c`, `if_covered()`, `hk_large_enter()`, `hk_large_unmap()` in `large/large_state.c`; `hk_descriptor_new()`,
 *          `hk_descriptor_drop()` in `span/descriptor.c`; `hk_large_at()` in `large/large_state.h`; `hk_page_map_cover()`, `hk_page_map_assign()`,
 *          `hk_page_map_set()` in `span/page_map.c`; `cover_locked()`, `has_chunks()`, `cover_apart()` in `span/page_map.c`;
 *          `hk_page_map_lookup()` in `span/page_map.h`
 * Shows    a block in use has its page map entry, number and descriptor; a mapping of the program has no page map entry; no
 *          word of the page map is written before it is mapped; a mapping that the system refuses to unmap is found as
 *          before
 * Not      slices of the page heap (purge.pml); entries that tell of a heap that has ended, which stay: a free there asks the system who has the
 *          memory (`is_anothers()` in `heaps/heaps.c`)
 * Threads  3
 * Fault 1, assertion: the page map entry is cleared after the unmapping
 * Fault 2, assertion: a mapping that stays has lost its page map entry
 * Fault 3, assertion: a leaf is entered before its tables are mapped
 * Fault 4, assertion: the descriptor is dropped before the unmapping
 * Fault 5, assertion: the page map entry is written before its leaf is covered */
#include "common.pml"

#define ADDRESSES 2
#define NOBODY 0
#define PROGRAM 9

byte holder[ADDRESSES];  /* the true state: the holder of each address */
bool writable, noted; /* the tables of the leaf of both addresses; the leaf is entered */
bool entry[ADDRESSES];   /* 0, or a large block's */
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

/* At a free address: three threads compete for two. */
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
    entry[at] = true
}

inline check_mine() { assert(entry[at] && number[at] == slab && start[slab] == at && holder[at] == _pid) }

/* The system may refuse; then the block stays in the cache, and is used again. */
inline hk_large_unmap()
{
#if FAULT != 1
    entry[at] = false;
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
       entry[at] = true;
#endif
       check_mine()
    fi;
#if FAULT == 1
    entry[at] = false;
#endif
#if FAULT != 4
    if
    :: gone -> descriptor_drop()
    :: else
    fi
#endif
}

proctype Large()
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
          :: !gone -> check_mine(); hk_large_unmap()
          :: else -> break
          od
       :: else -> holder[at] = NOBODY; descriptor_drop()
       fi;
       turn++
    :: else -> break
    od;
    ended++
}

/* The program's own mappings. */
proctype Program()
{
    byte at, turn;
    do
    :: turn < 2 ->
       map(PROGRAM);
       assert(!entry[at]);
       assert(!entry[at] && holder[at] == PROGRAM);
       holder[at] = NOBODY;
       turn++
    :: else -> break
    od;
    ended++
}

init
{
    atomic { run Large(); run Large(); run Program() };
    ended == 3;
    assert(!entry[0] && !entry[1] && !used[1] && !used[2])
}
