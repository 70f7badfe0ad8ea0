/* These functions purge pages without live blocks in slabs that are in use. A sweep looks at each slab once, and waits for the purge delay only if it
 * is of the kind HK_SWEEP_AGED. A slab has one of these states:
 *
 *   touched -- look --> ageing -- look, the purge delay has passed --> purged -- a block is allocated or freed --> touched
 *
 * Owns       This file owns the fields `pages` and `idle_from` of slabs, and the work budget of a sweep.
 * Invariant  A page is purged only while all blocks on it are free, and the caller holds the slab or has claimed these blocks. The
 *            exception is hk_slab_purge_block(), whose caller is about to free the block.
 * Threads    The holder of a slab calls these functions. Any thread may call hk_slab_purge_claimed() and hk_slab_purge_block().
 * Never      No function writes into the pages. A sweep of a list of slabs does not split a huge page to purge a small part of it. */
#pragma once

#include "slab/slab.h"

enum hk_sweep_why {
    HK_SWEEP_AGED, /* purges pages that were free for the purge delay */
    HK_SWEEP_GROWTH, /* purges pages because the heap grows, but not in slabs where blocks were allocated since the last look */
    HK_SWEEP_EXCESS /* purges all free pages, because the program has shrunk */
};

struct hk_sweep {
    uint64_t now, touched; /* ms; `touched` counts as the time of every touch since the last look */
    int64_t work;          /* rest of the work budget; a visit to a slab costs 1, a system call HK_WORK_OF_CALL */
    enum hk_sweep_why why;
    bool waits; /* set to true if a visited slab has free pages that are not due yet */
};

/* While a sweep holds a lock, it makes at most one system call, or looks at HK_LOOKS_OF_HOLD slabs without a system call. */
enum { HK_WORK_OF_CALL = 16, HK_WORK_OF_HOLD = HK_WORK_OF_CALL, HK_LOOKS_OF_HOLD = 16 };

/* Limits the work budget to HK_WORK_OF_HOLD, before a lock is taken. Returns the rest, which the caller adds again after the unlock. */
int64_t hk_sweep_hold(struct hk_sweep *sweep);
/* Looks at the walk's slab, purges its due pages, and advances the walk. If the work budget ends, the next call continues within the slab, unless the
 * slab was touched in between. A purged slab goes to the end of the list, so that the holder first allocates from resident slabs. */
void hk_slab_sweep_slow(struct hk_walk *walk, struct hk_list *list, struct hk_sweep *sweep);
HK_INLINE void hk_slab_sweep_under(struct hk_walk *walk, struct hk_list *list, struct hk_sweep *sweep)
{
    struct hk_slab *slab = hk_container_of(walk->at, struct hk_slab, link);
    if (walk->within != 0 || slab->pages != HK_PAGES_PURGED) {
        hk_slab_sweep_slow(walk, list, sweep);
        return;
    }
    sweep->work--;
    walk->at = slab->link.next;
}

/* The state of a trim, which purges all free pages. The trim goes from slab to slab, and purges one range of pages at a time. */
struct hk_trim {
    uint32_t pass;            /* the number of this trim */
    unsigned class;           /* the class of the slabs that are trimmed now */
    const struct hk_slab *at; /* the slab that is trimmed now */
    unsigned within;          /* the block of this slab at which the trim continues */
    size_t bytes, calls;      /* bytes purged and system calls made by this trim */
};

struct hk_trim hk_trim_begin(void);
/* Purges the next range of free pages of a slab. Returns true if no range is left, so that the slab is trimmed. */
bool hk_slab_trim(struct hk_slab *slab, struct hk_trim *trim);
/* Returns true if this trim, or a later one, has trimmed the slab. */
HK_INLINE bool hk_slab_is_trimmed(const struct hk_slab *slab, const struct hk_trim *trim)
{
    return (int32_t)(slab->trimmed - trim->pass) >= 0;
}

/* Purges one range of whole pages that blocks in `bits` cover. The caller has claimed these blocks, but does not hold the slab. The search begins at
 * block *within. Stores in *within where the next search begins. Adds the purged bytes to *bytes. Returns false if no range is left. */
bool hk_slab_purge_claimed(const struct hk_slab *slab, const uint64_t *bits, unsigned *within, size_t *bytes);

/* Purges the whole pages of a medium block that the caller is about to free, unless this would split a huge page for a small part of it. */
void hk_slab_purge_block(const void *block);
