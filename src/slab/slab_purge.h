/* Slab purge: purges the pages of slabs in use on which no live block lies.
 *
 *   touched -- look --> ageing -- look, the purge delay has passed --> purged -- a block is allocated or freed --> touched
 *
 *   A sweep that reclaims for growth does not wait for the delay. It skips only slabs in which blocks were allocated since the last look.
 *
 * Owns       the fields `pages` and `idle_from` of the slabs; the work budget of a sweep.
 * Invariant  a page is purged only while all blocks on it are free, and the caller holds the slab.
 * Threads    the holder of the slab; hk_slab_purge_claimed: any.
 * Never      writes into the pages; splits a huge page for a small part of it. */
#ifndef HK_SLAB_PURGE_H
#define HK_SLAB_PURGE_H

#include "slab/slab.h"

struct hk_sweep {
    uint64_t now, touched; /* ms; a slab touched since the last look was touched at `touched` at the latest */
    int64_t work;          /* what is left of the budget; a look takes 1, a system call HK_WORK_OF_CALL */
    bool reclaims;         /* the sweep is for growth */
    bool waits;            /* a visited slab is ageing */
};

/* The most that is done while a lock is held: one system call, or a look at so many slabs that need none. */
enum { HK_WORK_OF_CALL = 16, HK_WORK_OF_HOLD = HK_WORK_OF_CALL, HK_LOOKS_OF_HOLD = 16 };

/* Reduces the work budget to that of one hold of a lock. Returns the rest, which the caller adds again afterwards. */
int64_t hk_sweep_hold(struct hk_sweep *sweep);
/* Looks at the walk's slab, purges what is due as long as the work budget lasts, and advances the walk. The next call continues within the slab
 * unless the slab was touched since. A purged slab goes to the end of the list, so that the holder first allocates from resident slabs. */
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

/* The state of a trim, which purges all free pages, whatever their age. It goes from slab to slab, and purges one range at a time. */
struct hk_trim {
    uint32_t pass;
    unsigned class;           /* the class that the trim is at */
    const struct hk_slab *at; /* the slab that the trim is at */
    unsigned within;          /* the next block in this slab */
    size_t bytes, calls;      /* purged bytes so far, and system calls */
};

struct hk_trim hk_trim_begin(void);
/* Purges at most one range of a slab. Returns true when the slab has no other range, and is then trimmed. */
bool hk_slab_trim(struct hk_slab *slab, struct hk_trim *trim);
/* Returns true if this trim, or a later one, has trimmed the slab. */
HK_INLINE bool hk_slab_is_trimmed(const struct hk_slab *slab, const struct hk_trim *trim)
{
    return (int32_t)(slab->trimmed - trim->pass) >= 0;
}

/* Purges the whole pages that only blocks claimed by the caller cover. The caller does not hold the slab. Returns the purged bytes. */
size_t hk_slab_purge_claimed(const struct hk_slab *slab, const uint64_t *bits, struct hk_sweep *sweep);

#endif
