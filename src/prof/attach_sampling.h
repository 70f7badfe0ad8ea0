/* Attach sampling: samples a process that began without hooks, while nearly all of its calls stay hits.
 *
 *   blocks over HK_FINE_MAX: each allocation is a miss, and counts down
 *   smaller ones:            at a tick a window opens: the gate is shut, each allocation counts down --64 samples, 5 ms--> it opens again
 *   a picked block lies apart (sampled_heap.h), or is a large block, so that its free is never a hit
 *
 * Owns       the window; the counts of blocks served, as of the last tick. The bins count all blocks that they serve, so that a sample of a class
 *            stands for the blocks that the process allocated in the class, divided by the samples of the class.
 * Invariant  off, it costs nothing: hooks are off, and the gate is open. Frees are always hits.
 * Threads    begin, end, tick: one at a time (the learner's lock). All else: any. */
#ifndef HK_ATTACH_SAMPLING_H
#define HK_ATTACH_SAMPLING_H

#include "tcache/layout.h"

struct hk_attach_sampling {
    _Atomic bool xon;
    _Atomic bool xwindow;            /* a window is open, and all allocations count down */
    _Atomic uint64_t xends_ns;       /* clock at which the window closes */
    _Atomic uint32_t xcalls, xpicks; /* calls and picks left in the window */
    /* These fields are written at ticks and read from outside the process. */
    _Atomic uint64_t xmean, xfine_mean, xbegan_ms, xticked_ms, xwindows;
    _Atomic uint64_t xserved[HK_CLASSES]; /* blocks served since sampling began; only fine classes */
    uint64_t served_before[HK_CLASSES];
};
extern struct hk_attach_sampling hk_attach_sampling;

/* Opens the tables and begins to sample. Returns false if memory is refused. Precondition: all calls hit. */
bool hk_attach_sampling_begin(uint64_t mean);
/* Ends the picking of blocks. Picked blocks stay known until they are freed. */
void hk_attach_sampling_end(void);
/* Opens the next window, at a tick. */
void hk_attach_sampling_tick(void);
/* Returns true if an allocation that misses must be sampled. Precondition: the thread has a tcache. */
bool hk_attach_sampling_picks(struct hk_tcache *cache, size_t size);

#endif
