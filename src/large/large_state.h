/* Declares the descriptors of large blocks, their lists, totals and lock, and the extents.
 *
 *   The extents find the mapping that contains an address. The page map cannot, because it has an entry only for the first slice of a mapping.
 *   The extents form a treap: a search tree by address that is also a heap by a hash of the address. The hash keeps the tree balanced.
 *
 * Owns       This file owns `child` of large blocks, and struct hk_large, which all files of the folder change.
 * Invariant  The mappings do not overlap. `start` does not change while a block is in the extents.
 * Threads    Only the holder of the lock uses the fields. Any thread may read the fields that begin with x without the lock. The thread that
 *            has a block may read the block's `d` and `requested`. */
#pragma once

#include "base/lock.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/descriptor.h"

/* Returns the bytes of the lead, which are whole pages of the system. A block on huge pages begins with the lead. The lead lies on small pages, so
 * that a program that writes only there uses no huge page. Slack of up to this length is not cut off, because the cut would split a huge page. */
HK_INLINE size_t hk_large_lead(void) { return hk_max((size_t)4 * HK_PAGE, hk_system_page()); }

struct hk_large_block {
    struct hk_descriptor d;          /* d.bytes is the size of the mapping */
    size_t requested;                /* bytes that the program has; slack follows up to d.bytes */
    uint64_t idle_since;             /* time (ms) when a purge first saw it cached or with slack, or HK_LARGE_UNSEEN */
    struct hk_link link;             /* linked while the block is cached, kept or pending_unmap */
    struct hk_link by_slack;         /* linked while the block is in use and has slack that may be cut off */
    struct hk_link by_size;          /* linked while the block is in a bin of hk_fit */
    struct hk_large_block *child[2]; /* links of the treap, by enum hk_side */
    uint16_t idle_from;              /* time of the block's last free, as an age stamp (span/descriptor.h) */
    bool modified;                   /* the program has changed the mapping, or the freed block wastes huge pages */
    bool ended;                      /* the block's user heap has ended; its entry is HK_ENTRY_ENDED_LARGE */
    uint32_t uncut;                  /* bytes of slack that no purge cuts off; 0: no huge pages were requested */
    struct hk_link in_heap;          /* neighbors in the list of the user heap that has the block (heaps/heaps.h) */
} HK_ALIGNED(HK_CACHE_LINE);
_Static_assert(sizeof(struct hk_large_block) <= HK_DESCRIPTOR_BYTES - HK_CACHE_LINE,
               "the line where a slab counts remote frees stays 0");

/* Returns the large block whose first slice contains the address. */
HK_INLINE struct hk_large_block *hk_large_at(uintptr_t address)
{
    return (struct hk_large_block *)(void *)hk_descriptor_at(address);
}
/* Returns true if the mapping has at least `bytes`, and the rest of the mapping is slack that no purge cuts off. */
HK_INLINE bool hk_large_is_about(const struct hk_large_block *large, size_t bytes)
{
    return large->d.bytes - bytes <= large->uncut;
}
/* Returns the bytes of a block in use, without the slack that a purge may cut off. */
HK_INLINE size_t hk_large_held(const struct hk_large_block *large)
{
    return HK_UNLIKELY(hk_link_linked(&large->by_slack)) ? large->requested : large->d.bytes;
}

enum hk_side { HK_LOWER, HK_HIGHER };
void hk_extents_add(struct hk_large_block *large);
void hk_extents_remove(struct hk_large_block *large);
/* Returns the last block that begins below the address (HK_LOWER), or the first one that begins at or above it (HK_HIGHER), or NULL. */
struct hk_large_block *hk_extents_nearest(uintptr_t address, enum hk_side side);

#define HK_LARGE_UNSEEN UINT64_MAX
/* HK_LARGE_MOST_UNSORTED limits the number of blocks that are not sorted by size, because a search looks at each of them. */
enum { HK_LARGE_GHOSTS = 32, HK_LARGE_MOST_UNSORTED = 64 };

struct hk_large_totals {
    size_t live;   /* bytes of blocks in use */
    size_t blocks; /* number of blocks in use */
    size_t cached; /* bytes of cached blocks and of slack */
};

extern struct hk_large {
    struct hk_lock lock;
    struct hk_list cached; /* newest first */
    struct hk_list kept;   /* blocks that stay until idle_since + the purge delay; newest first */
    struct hk_large_ghost {
        size_t bytes;
        uint16_t idle_from;
        bool made_room;        /* the block was unmapped because the cache was over its budget */
    } ghosts[HK_LARGE_GHOSTS]; /* records of the blocks unmapped last */
    unsigned next_ghost;
    struct hk_list pending_unmap;   /* modified blocks that the system has not unmapped yet */
    struct hk_link *sorted;         /* newest cached block that is in a bin by size; all older ones are in bins */
    int room_unsorted;              /* number of blocks that may still be cached without a bin */
    struct hk_list with_slack;      /* blocks in use that have slack; newest first */
    struct hk_large_block *extents; /* root of the treap, which has all mappings except those that are being changed */
    struct hk_large_totals totals;
    _Atomic uintptr_t xlowest, xhighest; /* all mappings, present and past, lie in this range */
    _Atomic uint64_t xversion;           /* rises whenever a block comes into use, is resized or freed */
    _Atomic bool xunnoted;  /* a modified range could not be recorded, so all blocks must be marked as modified */
    _Atomic uint64_t xgone; /* bytes of all freed blocks that had at least huge_blocks_from bytes */
    _Atomic size_t xon_huge_pages; /* number of blocks on huge pages */
} hk_large;

/* Set at the start. True if freed blocks are readable and have the contents that the program left. False if a protection changes freed blocks. */
extern bool hk_large_freed_are_intact;
void hk_large_init(void);
/* Takes the lock, or returns false after some tries. Does not wait, because the caller may be a signal handler that interrupted the holder. */
HK_ROOM bool hk_large_lock_in_some_tries(void);
struct hk_large_totals hk_large_total(void);

HK_INLINE struct hk_large_block *hk_large_of_link(struct hk_link *link)
{
    return hk_container_of(link, struct hk_large_block, link);
}
/* Returns the size of the longest mapping that a request of `bytes` accepts. */
HK_INLINE size_t hk_large_loosest(size_t bytes) { return bytes * HK_POLICY(large_fit) / 100; }

/* Only the functions below write xon_huge_pages, `d` and `uncut`. A block that one of the functions changes is in no list. */
/* Returns the number of bytes to map for a block of `bytes`. Rounds up to whole huge pages if they suit the block and add little. */
HK_ROOM size_t hk_large_in_whole_huge_pages(size_t bytes);
/* Returns a mapping whose first slice the page map covers, or NULL if the limit or the system refuses. */
HK_ROOM void *hk_large_map(size_t bytes, size_t align);
/* Writes the start and the size of a mapping into the descriptor, and writes the page map entry. Requests huge pages if they suit the size. */
HK_ROOM void hk_large_enter(struct hk_large_block *large, uintptr_t start, size_t bytes);
/* Guesses whether the program has used a freed block, and counts unused blocks. Reads two words at random places, because a word that was never
 * written is 0. Does not ask the system which pages are resident, because a sandbox may forbid this system call. */
HK_ROOM void hk_large_note_use_locked(const struct hk_large_block *large);
/* Returns true if the block lies on huge pages, but the program seems to have written little of the blocks that it freed last. */
HK_ROOM bool hk_large_wastes_huge_pages(const struct hk_large_block *large);
/* Lengthens the mapping in place or by moving its pages. If the limit or the system refuses, leaves the mapping unchanged and returns false. */
HK_ROOM bool hk_large_lengthen(struct hk_large_block *large, size_t bytes);
HK_ROOM bool hk_large_remap_in_place(struct hk_large_block *large, size_t bytes);
/* Unmaps a block. Sets its page map entry to 0 (HK_ENTRY_ENDED_LARGE if large->ended). If the system refuses, purges the block and returns false. */
HK_ROOM bool hk_large_unmap(struct hk_large_block *large);
