/* Pages: what a slab in use can give back: its pages that no taken block lies on.
 *
 *   touched --look--> ageing --look, the delay has passed--> gone --a block comes or goes--> touched
 *
 *   A sweep that reclaims for growth does not wait for the delay: it leaves alone only what blocks were taken from since the last look.
 *
 * Owns       the fields `pages` and `idle_from` of the slabs; how much one sweep over them may do.
 * Invariant  a page goes only while all blocks on it are free, and the caller holds the slab.
 * Threads    the holder of the slab; purge_claimed: any.
 * Never      writes into the pages; splits a huge page for little. */
#ifndef HK_SLAB_PURGE_H
#define HK_SLAB_PURGE_H

#include "slab/slab.h"

struct hk_sweep {
    uint64_t now, touched; /* ms: what was touched since the last look, was touched at `touched` or earlier */
    int64_t work;        /* left: a look takes 1, a system call HK_WORK_OF_CALL */
    bool reclaims;             /* for growth */
    bool waits;            /* something that was looked at is ageing */
};

/* No lock is held for more: one system call, or a look at so many slabs that need none. */
enum { HK_WORK_OF_CALL = 16, HK_WORK_OF_HOLD = HK_WORK_OF_CALL, HK_LOOKS_OF_HOLD = 16 };

/* Leaves of the work budget what may be done under one hold of a lock. Returns the rest, to be added afterwards. */
int64_t hk_sweep_hold(struct hk_sweep *sweep);

/* A look at the slab that a walk along its list has come to: gives back what is due, as long as the work budget lasts: in part, where there
 * is more. A slab that is touched between two calls is left. What has lost pages goes to the list's end: who takes blocks finds those
 * first that cost no fault. */
void hk_slab_sweep_slow(struct hk_walk *walk, struct hk_list *list, struct hk_sweep *sweep);
HK_INLINE void hk_slab_sweep_under(struct hk_walk *walk, struct hk_list *list, struct hk_sweep *sweep)
{
    struct hk_slab *slab = hk_container_of(walk->at, struct hk_slab, link);
    if (walk->within != 0 || slab->pages != HK_PAGES_GONE) {
        hk_slab_sweep_slow(walk, list, sweep);
        return;
    }
    sweep->work--;
    walk->at = slab->link.next;
}

/* All that can be given back, now, whatever is known of it: slab by slab, and of each a range at a time. */
struct hk_trim {
    uint32_t pass;
    unsigned class;           /* how far who trims has come */
    const struct hk_slab *at; /* has been begun */
    unsigned within;
    size_t bytes, calls; /* given back so far, and by how many */
};

struct hk_trim hk_trim_begin(void);
/* At most one range. True when there is no other: the slab has been trimmed. */
bool hk_slab_trim(struct hk_slab *slab, struct hk_trim *trim);
/* By this trim, or a later one. */
HK_INLINE bool hk_slab_is_trimmed(const struct hk_slab *slab, const struct hk_trim *trim)
{
    return (int32_t)(slab->trimmed - trim->pass) >= 0;
}

/* Gives back the whole pages between claimed blocks, by who has claimed them and does not hold the slab. Bytes. */
size_t hk_slab_purge_claimed(const struct hk_slab *slab, const uint64_t *bits, struct hk_sweep *sweep);

#endif
