/* Attach sampling: samples a process that began without hooks, while nearly all of its calls stay hits.
 *
 *   blocks over HK_FINE_MAX: each allocation is a miss, and counts down
 *   smaller ones:            at a tick a window opens: the gate is shut, each allocation counts down --64 samples, 5 ms--> it opens again
 *   a picked block lies apart (sampled_heap.h), or is a large block: its free is never a hit
 *
 *   A sample of a class stands for as many blocks of the class as the process allocated meanwhile, divided by the samples of the class: the
 *   bins count all that they serve.
 * Owns       the window; the counts of blocks served, as of the last tick.
 * Invariant  off, it costs nothing: hooks are off, the gate is open. Frees are hits all the while.
 * Threads    begin, end, tick: one at a time (the learner's lock). All else: any. */
#ifndef HK_ATTACH_SAMPLING_H
#define HK_ATTACH_SAMPLING_H

#include "tcache/layout.h"

struct hk_attach_sampling {
    _Atomic bool xon;
    _Atomic bool xwindow;            /* open: all allocations count down */
    _Atomic uint64_t xends_ns;       /* when the window closes */
    _Atomic uint32_t xcalls, xpicks; /* left in the window */
    /* written at ticks; read from outside the process */
    _Atomic uint64_t xmean, xfine_mean, xbegan_ms, xticked_ms, xwindows;
    _Atomic uint64_t xserved[HK_CLASSES]; /* since the begin; of fine classes */
    uint64_t served_before[HK_CLASSES];
};
extern struct hk_attach_sampling hk_attach_sampling;

/* Opens the tables and begins; false if memory is refused. Precondition: all calls hit. */
bool hk_attach_sampling_begin(uint64_t mean);
/* No block is picked any more. Those that were stay known until they are freed. */
void hk_attach_sampling_end(void);
/* At a tick: opens the next window. */
void hk_attach_sampling_tick(void);

/* True if an allocation that misses is to be picked. Precondition: the thread has a tcache. */
bool hk_attach_sampling_picks(struct hk_tcache *cache, size_t size);

#endif
