/* Pages: what a slab in use can give back: its pages that no taken block lies on.
 *
 *   touched --look--> ageing --look, the delay has passed--> gone --a block comes or goes--> touched
 *
 *   A sweep that pays for growth does not wait for the delay: it leaves alone only what blocks were taken from since the last look.
 *
 * Owns       the fields `pages` and `idle_from` of the slabs; how much one sweep over them may do.
 * Invariant  a page goes only while all blocks on it are free, and the caller holds the slab.
 * Threads    the holder of the slab.
 * Never      writes into the pages; splits a huge page for little. */
#ifndef HK_PAGES_H
#define HK_PAGES_H

#include "slab/slab.h"

struct hk_sweep {
    uint64_t now, touched; /* ms: what was touched since the last look, was touched at `touched` or earlier */
    int64_t effort;        /* left: a look takes 1, a system call HK_EFFORT_OF_CALL */
    bool pays;             /* for growth */
    bool waits;            /* something that was looked at is ageing */
};

enum { HK_EFFORT_OF_CALL = 16 };

/* A look: gives back what is due. True if pages went. */
bool hk_slab_sweep(struct hk_slab *slab, struct hk_sweep *sweep);

/* Gives back all that can be, now, whatever is known of it. Bytes. */
size_t hk_slab_purge(struct hk_slab *slab);

#endif
