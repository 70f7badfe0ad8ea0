/* Decay: decides when free memory is purged. Misses and the background thread begin epochs, which purge memory that has been free for the purge
 * delay. Memory is also purged before the heap grows beyond its watermark, and when the program requests a purge of all free memory.
 * Owns     This file owns the time of the last epoch, the watermark, and the rounds of the background thread.
 * Threads  Any thread may call these functions. */
#pragma once

#include "slab/owner.h"

/* A heap with a smaller footprint is small. Most processes stay below this size, so HAKMEM reads no files about the machine in such processes. */
#define HK_SMALL_HEAP (4 * HK_MIB)

/* The time of the learner's next tick in ms, or UINT64_MAX if none will come. Becomes 0 when the heap is no longer small, so that a tick is due. */
extern _Atomic uint64_t hk_decay_learner_due_ms;

/* After so many purge delays without a tick, all free blocks of a thread count as idle. */
enum { HK_RESTED_DELAYS = 4 };

/* Holds what a thread has seen of the clock, of epochs, and of rises of the watermark. */
struct hk_ticker {
    uint64_t epoch_seen;
    uint64_t now, before; /* the times of this tick and of the previous tick, in ms */
    uint32_t rises_seen;
};

/* Returns the ticker of a new thread. Earlier rises of the watermark do not concern the thread, because it holds no idle memory yet. */
struct hk_ticker hk_decay_first_ticker(void);
/* Reads the clock. Returns true if the caller's last tick was so long ago that all blocks in its tcache are idle. */
bool hk_decay_read_clock(struct hk_ticker *ticker);
/* Runs an epoch if one is due. Returns true if any thread has run an epoch since the caller's last call. */
bool hk_decay_tick(struct hk_ticker *ticker);
/* Reclaims idle memory if the footprint exceeds the watermark. Returns true if any thread could not reclaim enough since the caller's last call. Then
 * the caller must purge its own idle memory. `footprint` is the value of hk_decay_footprint() at this tick. */
bool hk_decay_growth(struct hk_ticker *ticker, size_t footprint);
/* Purges excess: idle memory beyond the sum of 8 MiB, a quarter of the used memory, and the recently reused bytes. Its age is ignored. `in_slabs` is
 * the number of bytes that the caller has freed in its slabs. Returns a set of bits. HK_EXCESS_IN_SLABS means that the caller should purge the free
 * pages of its slabs, because `in_slabs` is more than half of the used memory. HK_EXCESS_SHRUNK means that the caller should empty its cache, because
 * more bytes than the footprint were purged since the last such result. */
enum hk_excess { HK_EXCESS_IN_SLABS = 1, HK_EXCESS_SHRUNK = 2 };
unsigned hk_decay_purge_excess(const struct hk_ticker *ticker, size_t footprint, size_t in_slabs);
/* Lowers the watermark toward the footprint. Called by a thread that has just purged its idle memory. */
void hk_decay_swept(const struct hk_ticker *ticker);
/* Wakes the background thread, or requests one if there is none, as hk_decay_growth() also does. Called after much memory was freed at once. */
void hk_decay_notify(void);

/* Returns the work budget of a sweep over the caller's own slabs at this tick. The budget is a share of the time since the last tick. */
struct hk_sweep hk_decay_share(const struct hk_ticker *ticker);

/* A round of the background thread runs an epoch if one is due, and sweeps the slabs of all threads. The struct says what the round found. */
struct hk_round {
    bool waits;   /* some memory is not old enough to be purged, so another round is needed soon */
    bool threads; /* a thread has a tcache */
};
struct hk_round hk_decay_in_background(void);
/* Returns the bytes of all slices and large blocks. */
size_t hk_decay_mapped(void);
size_t hk_decay_footprint(void);
/* Returns the bytes of dirty free slices and of cached large blocks, which are free but may be resident. */
size_t hk_decay_idle(void);
/* Purges all free memory outside tcaches, except `keep` bytes of the slices and large blocks that were freed last. Returns the purged bytes. */
size_t hk_decay_all(size_t keep);
/* Returns true if ended threads have left so much free memory that an immediate purge is worth it. `caches` is the number of bytes in their caches.
 * Returns true so rarely that the page faults after the purges take at most 1 % of the time. */
bool hk_decay_left_is_due(size_t caches);
/* Purges the free memory of threads that have ended. `caches` is the number of bytes that were already purged from their caches. */
void hk_decay_left(size_t caches);
