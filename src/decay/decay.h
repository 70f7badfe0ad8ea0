/* Decay: when free memory is purged: in epochs, which misses and the background thread begin; before the heap grows beyond its
 * watermark; and all at once on request.
 * Owns     the time of the last epoch, the watermark, the rounds of the background thread and their lock.
 * Threads  any. */
#ifndef HK_DECAY_H
#define HK_DECAY_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* Below this footprint, a heap is small: most processes stay there, and no question about the machine is worth its files. */
#define HK_SMALL_HEAP (4 * HK_MIB)

/* The time of the learner's next tick, in ms; 0 once the heap is no longer small. */
extern _Atomic uint64_t hk_decay_learner_due_ms;

/* A thread's notes of the time. */
struct hk_ticker {
    uint64_t epoch_seen;
    uint64_t now, before; /* ms: this tick and the one before */
    uint32_t rises_seen;
};

/* For a new thread: it holds no idle memory, so earlier rises of the watermark do not concern it. */
struct hk_ticker hk_decay_first_ticker(void);
/* Reads the clock. True if the caller has rested for so long that all blocks in its tcache are idle. */
bool hk_decay_read_clock(struct hk_ticker *ticker);
/* Runs an epoch if one is due. True if any thread has run one since the caller's last call. */
bool hk_decay_tick(struct hk_ticker *ticker);
/* If the footprint is over the watermark, reclaims idle memory for it. True if that was not enough, in any thread, since the
 * caller's last call: the watermark has risen, and the caller is to purge what it holds idle itself. */
bool hk_decay_growth(struct hk_ticker *ticker);
/* The caller has purged its idle memory: lowers the watermark toward the footprint. */
void hk_decay_swept(const struct hk_ticker *ticker);
/* Much memory came free at once: wakes or requests the background thread. hk_decay_growth() does so by itself. */
void hk_decay_notify_slow(void);
HK_INLINE void hk_decay_notify(void)
{
    if (HK_UNLIKELY(hk_slab_lists_shared))
        hk_decay_notify_slow();
}

/* The work budget of a sweep over the caller's own slabs at this tick: a share of the time since the last one. */
struct hk_sweep hk_decay_share(const struct hk_ticker *ticker);

/* One round of the background thread: an epoch if due, and a sweep over the slabs of all threads. */
struct hk_round {
    bool waits;   /* some memory is aging: another round is needed soon */
    bool threads; /* some thread has a tcache */
};
struct hk_round hk_decay_in_background(void);
/* Bytes of all slices and large blocks. */
size_t hk_decay_mapped(void);
/* Bytes that may be resident. */
size_t hk_decay_footprint(void);
/* The free ones of these: dirty slices and cached large blocks. */
size_t hk_decay_idle(void);
/* Purges all free memory outside tcaches; `keep` bytes of slices and cached large blocks, those freed last, stay resident. Returns bytes. */
size_t hk_decay_all(size_t keep);
/* True if threads that have ended may have left enough to purge at once; `caches` is the bytes of their caches. Where threads
 * come and go, the page faults that follow take 1 % of the time at most. */
bool hk_decay_left_is_due(size_t caches);
/* Purges what ended threads left, after `caches` bytes of their caches were purged. */
void hk_decay_left(size_t caches);
/* Waits until the background thread has left the slabs that it was at. */
void hk_decay_let_sweeps_pass(void);
/* At start: registers the lock for fork. */
void hk_decay_init(void);

#endif
