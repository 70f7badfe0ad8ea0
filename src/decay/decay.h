/* GiveBack: when free memory goes back to the system: from slow paths, at most once per interval; before the heap grows
 * beyond what it held of late; or all at once when asked.
 * Owns     the time of the last pass; the watermark up to which the heap may grow; what the background thread does, and its lock.
 * Threads  any. */
#ifndef HK_DECAY_H
#define HK_DECAY_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* What a caller notes of the time. */
struct hk_ticker {
    uint64_t epoch_seen;
    uint64_t now, before; /* this tick and the one before it, ms */
    uint32_t rises_seen;
};

/* For a thread that begins: it has nothing idle that growth so far could have asked for. */
struct hk_ticker hk_decay_first_ticker(void);
/* A glance at the clock. True if the caller has rested so long that nothing of what it holds ready is in use. */
bool hk_decay_read_clock(struct hk_ticker *ticker);
/* A pass if one is due. True if there was one, whoever made it, since the caller last asked. */
bool hk_decay_tick(struct hk_ticker *ticker);

/* Where the heap has grown beyond its level, as much of what lies idle goes back. True if that was too little, whoever saw it,
 * since the caller last asked: the watermark has risen, and each thread is to look for what it holds idle itself. */
bool hk_decay_growth(struct hk_ticker *ticker);
/* The caller has looked: the watermark comes down to what is warm now. */
void hk_decay_swept(const struct hk_ticker *ticker);

/* Much came free at once: the background thread may be wanted. Growth asks each time by itself. */
void hk_decay_notify_slow(void);
HK_INLINE void hk_decay_notify(void)
{
    if (HK_UNLIKELY(hk_slab_lists_shared))
        hk_decay_notify_slow();
}

/* What a sweep over the caller's own slabs may do at this tick: the time that went by pays for it. */
struct hk_sweep hk_decay_share(const struct hk_ticker *ticker);

/* One round of the background thread: a pass, and a sweep over the slabs of all threads. */
struct hk_round {
    bool waits;   /* something is ageing: come back soon */
    bool threads; /* there is a thread that has a cache */
};
struct hk_round hk_decay_in_background(void);

/* Bytes of all slices and big blocks. */
size_t hk_decay_mapped(void);
/* Bytes that may be resident; and of these, what is free: whole slices, and cached big blocks. */
size_t hk_decay_footprint(void);
size_t hk_decay_idle(void);

/* Everything that is free in no thread's hands, now; but of whole runs and cached big blocks at most `keep` bytes stay warm, those
 * that were freed last. Returns bytes. */
size_t hk_decay_all(size_t keep);

/* Who is at the slabs of an owner at this moment, unasked, is there no longer afterwards. */
void hk_decay_let_sweeps_pass(void);

/* At the start: fork takes its lock. */
void hk_decay_init(void);

#endif
