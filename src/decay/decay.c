/* Decides when free memory is purged, and how much in one call. */
#include "decay/decay.h"
#include "decay/background_state.h"
#include "large/large.h"
#include "slab/abandoned.h"
#include "slab/slab_heap.h"
#include "slab/remote.h"
#include "span/meta.h"
#include "span/page_heap.h"

enum {
    WORK_FOR_ABANDONED = 32 * HK_WORK_OF_CALL,
    HOLDS_PER_PAUSE = 32,
    WORK_PER_MS = 8 * HK_WORK_OF_CALL, /* 8 system calls of about 1.5 microseconds take about 1 % of a millisecond */
};

#define LEAST_WATERMARK (64 * HK_MIB)
#define LEAST_RECLAIM (4 * HK_MIB)
#define IDLE_ALLOWED (8 * HK_MIB)
#define LEAST_EXCESS HK_MIB
#define LEAST_LEFT (2 * HK_MIB)
enum {
    /* RISE_PART, SWEEP_PART and IDLE_PART are divisors of the footprint. */
    RISE_PART = 32,
    SWEEP_PART = 16,               /* a sweep that purged more than 1/16 of the footprint lowers the watermark */
    RETRY_PART = 8,                /* after a purge in vain, the next try waits until 1/8 more is idle */
    IDLE_PART = 16,                /* idle memory below 1/16 of the footprint is not reclaimed */
    RECLAIMED_PER_RISE = 16,       /* the watermark rises by 1/16 of the reclaimed bytes */
    RECLAIMED_PER_MS = 256 * 1024, /* bytes whose page faults take 5 % of a millisecond */
    PURGED_PER_MS = 64 * 1024,     /* bytes whose page faults take 1 % of a millisecond */
    UNUSED_MS = 250,               /* in ms; no more reclaiming time than this is saved up while nothing is reclaimed */
    UNUSED_FOR_EXCESS_MS = 2000,   /* the same for excess (125 MiB at once); xexcess_at is at most this far ahead */
    SWEEP_AGAIN_MS = 50,
    IDLE_MS = 20, /* more recently freed memory is likely to be reused */
};

static _Atomic uint64_t xlast_epoch;
/* xwatermark is the watermark in bytes. xrises counts how often reclaiming was not enough. A thread that sees a new xrises purges its idle memory. */
static _Atomic size_t xwatermark = LEAST_WATERMARK;
static _Atomic uint32_t xrises;
static _Atomic size_t xpeak_footprint, xpeak_mapped;
/* xswept_before is the value that the counter purged_in_slabs had at the last call of sweep_all(). xgone_after is the number of purged bytes in slabs
 * after the last sweep. xin_vain is true if more than half of the bytes that the last sweep purged became resident again. */
static _Atomic size_t xswept_before, xgone_after;
static _Atomic bool xin_vain;
static _Atomic uint64_t xswept_for_ceiling;
static _Atomic bool xsmall = true;   /* the footprint has never reached HK_SMALL_HEAP */
static _Atomic uint64_t xreclaim_at; /* ms; until this time, reclaiming has used up its share of the time */
static _Atomic uint64_t xexcess_at;  /* ms; no excess is purged before this time, because of earlier purges */
static _Atomic size_t xback_at_epoch, xback_before;   /* reused_soon() at the last two epochs */
static _Atomic size_t xslices_allowed = IDLE_ALLOWED; /* bytes; a tick looks for excess if the idle slices have more */
static _Atomic size_t xfootprint_seen, xmost_seen; /* the footprint at the last look for excess, and the largest one */
/* If a try to purge excess in slices finds little, the next try waits until xretry_at (ms), or until more than xretry_above bytes are idle. */
static _Atomic uint64_t xretry_at;
static _Atomic size_t xretry_above;
/* The counter purged_excess is copied to xexcess_paid when charged to xexcess_at, and to xshrunk_by when hk_decay_purge_excess() returns true. */
static _Atomic uint64_t xexcess_paid, xshrunk_by;
static _Atomic uint64_t xleft_at; /* ms; until this time, hk_decay_left() is not due */
static _Atomic size_t xkept;      /* the lowest held bytes (hk_decay_left_is_due) since hk_decay_left() last purged */

size_t hk_decay_mapped(void) { return hk_page_heap_total().mapped + hk_large_mapped(); }

/* The result may leave out resident pages that other threads are just purging in their slabs. */
size_t hk_decay_footprint(void)
{
    size_t mapped = hk_page_heap_dirty() + hk_large_mapped();
    return mapped - hk_min(mapped, hk_slabs_clean() + hk_remote_clean());
}

size_t hk_decay_idle(void) { return hk_page_heap_idle() + hk_large_total().cached; }

static void lower_watermark(void)
{
    size_t twice = hk_decay_footprint() * 2, watermark = hk_load(xwatermark);
    if (twice < watermark && watermark > LEAST_WATERMARK)
        hk_store(xwatermark, hk_max(twice, LEAST_WATERMARK));
}

static struct hk_sweep sweep_budget(uint64_t from, uint64_t to)
{
    return (struct hk_sweep){.now = to, .touched = from, .work = (int64_t)(to - from) * WORK_PER_MS};
}

static bool rested(uint64_t from, uint64_t to)
{
    return from != 0 && to - from > HK_RESTED_DELAYS * hk_max(HK_POLICY(purge_delay), HK_TICK_MS);
}

/* Returns true if idle memory stays resident, whatever its age. No epoch begins then. */
static bool keeps_all(void) { return hk_options.free_policy == HK_FREE_KEEP; }

/* Returns the bytes that were reused within 128 ms of their free, in total since the start. Also counts memory that was purged in between. */
static size_t reused_soon(void) { return hk_load(hk_reuse.xback[0]) + hk_load(hk_reuse.xback[1]); }

static void epoch_if_due(uint64_t now)
{
    hk_reuse_saw(now);
    uint64_t last = hk_load(xlast_epoch);
    if (now < last || now - last < hk_min(HK_TICK_MS, HK_POLICY(purge_delay)) || keeps_all())
        return;
    if (!hk_replace(xlast_epoch, &last, now, memory_order_relaxed))
        return;
    hk_store(xback_before, hk_load(xback_at_epoch));
    hk_store(xback_at_epoch, reused_soon());
    /* If no thread has ticked for a long time, all free memory is older than the delay, and is purged at once. */
    uint64_t delay = rested(last, now) ? 0 : HK_POLICY(purge_delay);
    hk_page_heap_purge(now, delay, SIZE_MAX, delay == 0);
    hk_large_purge(now, delay, SIZE_MAX);
    hk_meta_purge(false);
    struct hk_sweep sweep = sweep_budget(last, now);
    hk_abandoned_sweep(&sweep);
    hk_idle_inboxes_sweep(&sweep);
    lower_watermark();
}

/* Raises the recorded peaks of the footprint and of the mapped bytes. Returns true if a peak has risen, because the heap is larger than ever. */
static bool is_new_peak(size_t footprint)
{
    size_t mapped = hk_decay_mapped(), most_mapped = hk_load(xpeak_mapped), most = hk_load(xpeak_footprint);
    if (mapped > most_mapped)
        hk_store(xpeak_mapped, mapped);
    if (footprint > most)
        hk_store(xpeak_footprint, footprint);
    return mapped > most_mapped || footprint > most;
}

/* Returns the bytes that were purged in slabs since the last call of sweep_all(). Trims count, too. */
static size_t purged_by_sweeps(void)
{
    return hk_load(hk_global_counts[HK_GLOBAL_purged_in_slabs]) - hk_load(xswept_before);
}

/* Purges about `due` bytes of memory that was idle for at least `delay_ms`. Purges slices before cached large blocks, and the oldest of each kind
 * first. Returns the purged bytes. If another thread is purging slices, waits for that thread only if `waits`. */
static size_t reclaim_idle(uint64_t now, uint64_t delay_ms, size_t due, bool waits)
{
    size_t reclaimed = hk_page_heap_purge(now, delay_ms, due, waits);
    return reclaimed < due ? reclaimed + hk_large_purge(now, delay_ms, due - reclaimed) : reclaimed;
}

/* Returns the time in ms, at most UNUSED_MS ago, from which memory may be reclaimed again. A longer pause saves up no more time. */
static uint64_t next_reclaim(uint64_t now) { return hk_max(hk_load(xreclaim_at), now - hk_min(now, UNUSED_MS)); }

static void sweep_all(uint64_t now)
{
    hk_store(xin_vain, hk_slabs_clean() + purged_by_sweeps() / 2 < hk_load(xgone_after));
    hk_store(xswept_before, hk_load(hk_global_counts[HK_GLOBAL_purged_in_slabs]));
    hk_add(xrises, 1);
    struct hk_sweep abandoned = {.now = now, .touched = now, .work = WORK_FOR_ABANDONED, .why = HK_SWEEP_GROWTH};
    hk_abandoned_sweep(&abandoned);
    hk_idle_inboxes_sweep(&abandoned);
}

/* Reclaims idle memory unless there is little of it, and raises the watermark. If two parts of the program take turns, each part soon touches again
 * what was reclaimed from it. So reclaiming may only use a share of the time, and the watermark rises until both parts fit below it. */
static void reclaim_for_growth(uint64_t now, size_t watermark, size_t footprint)
{
    size_t reclaimed = 0, missing = footprint - watermark;
    uint64_t reclaim_at = next_reclaim(now);
    bool more = is_new_peak(footprint);
    if ((more || reclaim_at <= now) && hk_decay_idle() > footprint / IDLE_PART)
        reclaimed = reclaim_idle(now, IDLE_MS, hk_max(LEAST_RECLAIM, 2 * missing), false);
    hk_store(xreclaim_at, reclaim_at + reclaimed / RECLAIMED_PER_MS);
    bool enough = reclaimed >= missing;
    size_t risen = enough ? watermark + reclaimed / RECLAIMED_PER_RISE : footprint + footprint / RISE_PART;
    bool first = hk_replace(xwatermark, &watermark, risen, memory_order_relaxed);
    if (first && !enough)
        sweep_all(now);
}

/* Does not lower it if the last sweep was in vain. The page faults that follow a sweep count against the share of the time for reclaiming. */
void hk_decay_swept(const struct hk_ticker *ticker)
{
    uint64_t now = ticker->now, reclaim_at = next_reclaim(now);
    size_t watermark = hk_load(xwatermark), footprint = hk_decay_footprint(),
           lower = hk_max(footprint + footprint / RISE_PART, LEAST_WATERMARK);
    if (!hk_load(xin_vain) && reclaim_at <= now && lower < watermark && purged_by_sweeps() > footprint / SWEEP_PART)
        hk_replace(xwatermark, &watermark, lower, memory_order_relaxed);
    hk_store(xreclaim_at, reclaim_at + purged_by_sweeps() / RECLAIMED_PER_MS);
    hk_store(xgone_after, hk_slabs_clean());
}

/* Reclaims idle memory. If fewer than `excess` bytes are reclaimed, increments xrises (once in SWEEP_AGAIN_MS), so that threads purge their slabs. */
static void hold_to_ceiling(uint64_t now, size_t excess)
{
    size_t reclaimed = reclaim_idle(now, 0, excess, false);
    uint64_t swept = hk_load(xswept_for_ceiling);
    if (reclaimed >= excess || now - swept < SWEEP_AGAIN_MS)
        return;
    hk_store(xswept_for_ceiling, now);
    hk_add(xrises, 1);
}

_Atomic uint64_t hk_decay_learner_due_ms = UINT64_MAX;
static HK_COLD void no_longer_small(void)
{
    hk_store(xsmall, false);
    if (hk_load(hk_decay_learner_due_ms) != UINT64_MAX)
        hk_store(hk_decay_learner_due_ms, 0);
}

bool hk_decay_growth(struct hk_ticker *ticker, size_t footprint)
{
    size_t watermark = hk_load(xwatermark), ceiling = HK_POLICY(ceiling);
    if (HK_UNLIKELY(hk_slab_lists_shared))
        hk_background_notify(footprint);
    if (HK_UNLIKELY(footprint >= HK_SMALL_HEAP) && HK_UNLIKELY(hk_load(xsmall)))
        no_longer_small();
    if (HK_UNLIKELY(footprint > ceiling))
        hold_to_ceiling(ticker->now, footprint - ceiling);
    else if (HK_UNLIKELY(footprint > watermark) && hk_options.free_policy == HK_FREE_ADAPTIVE)
        reclaim_for_growth(ticker->now, watermark, footprint);
    uint32_t rises = hk_load(xrises);
    bool risen = rises != ticker->rises_seen;
    ticker->rises_seen = rises;
    return risen;
}

struct hk_ticker hk_decay_first_ticker(void) { return (struct hk_ticker){.rises_seen = hk_load(xrises)}; }

bool hk_decay_read_clock(struct hk_ticker *ticker)
{
    uint64_t now = hk_os.clock_ms();
    ticker->before = ticker->now != 0 ? ticker->now : now;
    ticker->now = now;
    return rested(ticker->before, now);
}

bool hk_decay_tick(struct hk_ticker *ticker)
{
    epoch_if_due(ticker->now);
    uint64_t last = hk_load(xlast_epoch);
    bool passed = last != ticker->epoch_seen;
    ticker->epoch_seen = last;
    return passed;
}

/* Returns how many bytes may be idle, without the share for large blocks in use, which the caller and large_cache.h add. */
static size_t idle_allowed(size_t footprint, size_t slices, const struct hk_large_totals *large)
{
    size_t used = footprint - hk_min(footprint, slices + large->cached + large->live), reused = reused_soon();
    return IDLE_ALLOWED + used / HK_IDLE_PER_USED + reused - hk_min(reused, hk_load(xback_before));
}

/* Returns the bytes that were purged as excess or in slabs. Sweeps and trims in slabs count whatever their reason. */
static uint64_t purged_unasked(void)
{
    return hk_load(hk_global_counts[HK_GLOBAL_purged_excess]) + hk_load(hk_global_counts[HK_GLOBAL_purged_in_slabs]);
}

/* Charges new purges to xexcess_at. Returns how many bytes of excess may be purged now, so that page faults take at most 1 % of the time. The first
 * purges are free until they have as many bytes as the largest footprint, because the program has paid a page fault for each of these pages before. */
static size_t affordable_excess(uint64_t now, size_t footprint)
{
    uint64_t free = hk_max(hk_load(xmost_seen), footprint), gone = purged_unasked();
    uint64_t paid = atomic_exchange_explicit(&xexcess_paid, gone, memory_order_relaxed);
    uint64_t from = hk_max(hk_load(xexcess_at), now - hk_min(now, UNUSED_FOR_EXCESS_MS));
    from = hk_min(from + (hk_max(gone, free) - hk_max(paid, free)) / PURGED_PER_MS, now + UNUSED_FOR_EXCESS_MS);
    hk_store(xmost_seen, free);
    hk_store(xexcess_at, from);
    return (now - hk_min(now, from)) * PURGED_PER_MS + free - hk_min(free, gone);
}

/* The amount of idle memory decides, and not its age, because a program that has freed much memory perhaps makes no more slow calls. Large blocks are
 * unmapped at a free, and slices are purged at a tick. If little could be purged, the next try waits for a time or for more idle slices, because an
 * earlier try would look at the same chunks. If the heap has shrunk, `grown` wraps to a large number, so that this function looks for excess. */
unsigned hk_decay_purge_excess(const struct hk_ticker *ticker, size_t footprint, size_t in_slabs)
{
    size_t slices = hk_page_heap_idle(), grown = footprint - hk_load(xfootprint_seen);
    if (HK_LIKELY(slices + in_slabs <= hk_load(xslices_allowed)) && HK_LIKELY(grown < LEAST_EXCESS) &&
        HK_LIKELY(ticker->now == ticker->before))
        return 0;
    hk_store(xfootprint_seen, footprint);
    struct hk_large_totals large = hk_large_total();
    size_t allowed = idle_allowed(footprint, slices + in_slabs, &large);
    size_t affordable = hk_policy_purges_excess() ? affordable_excess(ticker->now, footprint) : 0;
    bool purges = affordable >= LEAST_RECLAIM;
    hk_store(hk_large_allowed, purges ? allowed - hk_min(allowed, slices + in_slabs) : HK_LARGE_NO_EXCESS);
    hk_store(xslices_allowed, SIZE_MAX);
    if (!purges)
        return 0;
    allowed += large.live / HK_IDLE_PER_USED;
    if (slices + in_slabs + large.cached > allowed)
        hk_large_hold_to_budget();
    size_t others = in_slabs + hk_large_total().cached, most = allowed + LEAST_EXCESS;
    hk_store(xslices_allowed, most - hk_min(most, others - in_slabs));
    if (slices + others > most && (ticker->now >= hk_load(xretry_at) || slices > hk_load(xretry_above))) {
        size_t keep = allowed - hk_min(allowed, others), dirty = hk_page_heap_dirty();
        size_t purged = hk_page_heap_purge_excess(keep, affordable), left = hk_page_heap_idle();
        dirty -= hk_min(dirty, hk_page_heap_dirty());
        HK_COUNT(purged_excess, hk_min(purged, dirty)); /* some pages of released slabs were purged before */
        hk_store(xretry_at, left > keep + LEAST_EXCESS && purged < affordable ? ticker->now + HK_TICK_MS : 0);
        hk_store(xretry_above, left + left / RETRY_PART);
    }
    uint64_t gone = purged_unasked(), before = hk_load(xshrunk_by);
    bool shrunk = gone > before && gone - before > hk_decay_footprint();
    if (shrunk)
        hk_store(xshrunk_by, gone);
    bool half = in_slabs > IDLE_ALLOWED && in_slabs > (footprint - hk_min(footprint, slices + others)) / 2;
    return (half ? HK_EXCESS_IN_SLABS : 0) | (shrunk ? HK_EXCESS_SHRUNK : 0);
}

void hk_decay_notify(void)
{
    if (HK_UNLIKELY(hk_slab_lists_shared))
        hk_background_notify(hk_decay_footprint());
}

/* Returns a budget of no work while the background thread works, because that thread sweeps the slabs of all threads. */
struct hk_sweep hk_decay_share(const struct hk_ticker *ticker)
{
    return hk_background_works() ? (struct hk_sweep){0} : sweep_budget(ticker->before, ticker->now);
}

/* Sweeps some slabs of an owner. Returns true after the last one. Makes at most one system call, because the owner may wait for the locks. */
static bool sweep_some(uint32_t id, bool begin, uint64_t now, struct hk_round *round)
{
    struct hk_sweep sweep = {.now = now, .touched = now, .work = HK_WORK_OF_HOLD};
    bool over = true;
    hk_lock(&hk_sweep_lock);
    if (!hk_owner_rests(id)) {
        struct hk_owner *owner = hk_owner_by_id(id);
        if (begin)
            hk_slab_heap_sweep_begin(owner, HK_SWEEP_AGED);
        over = keeps_all() || hk_slab_heap_sweep(owner, &sweep);
        round->threads |= hk_load(owner->xopen);
    }
    hk_unlock_in_turn(&hk_sweep_lock);
    round->waits |= sweep.waits;
    return over;
}

struct hk_round hk_decay_in_background(void)
{
    struct hk_round round = {false, false};
    uint64_t now = hk_os.clock_ms();
    epoch_if_due(now);
    for (uint32_t id = HK_FIRST_OWNER; (id = hk_owner_next(id)) < hk_owner_end() && !hk_background_is_leaving(); id++)
        for (unsigned holds = 1; !sweep_some(id, holds == 1, now, &round) && !hk_background_is_leaving(); holds++)
            if (holds % HOLDS_PER_PAUSE == 0)
                hk_os_pause();
    if (keeps_all())
        return round;
    struct hk_sweep sweep = {.now = now, .touched = now, .work = INT64_MAX};
    hk_idle_inboxes_sweep(&sweep);
    round.waits |= sweep.waits || hk_decay_idle() > 0;
    return round;
}

/* Purges free memory in the slabs of other threads. Does nothing if slab lists are not shared, because then only owners access their slabs. */
static size_t purge_of_others(void)
{
    size_t bytes = 0;
    for (uint32_t id = HK_FIRST_OWNER; hk_slab_lists_shared && (id = hk_owner_next(id)) < hk_owner_end(); id++) {
        struct hk_trim trim = hk_trim_begin();
        for (bool more = true; more;) {
            hk_lock(&hk_sweep_lock);
            more = !hk_owner_rests(id) && hk_slab_heap_trim_some(hk_owner_by_id(id), &trim);
            hk_unlock_in_turn(&hk_sweep_lock);
        }
        bytes += trim.bytes;
    }
    return bytes;
}

/* The kept memory keeps its age, so an epoch purges it after the purge delay. */
size_t hk_decay_all(size_t keep)
{
    hk_idle_inboxes_purge();
    size_t bytes = hk_abandoned_purge() + purge_of_others();
    hk_meta_purge(true);
    if (keep == 0)
        return bytes + hk_page_heap_unmap(true) + reclaim_idle(0, 0, SIZE_MAX, true);
    size_t idle = hk_decay_idle();
    bytes += reclaim_idle(hk_os.clock_ms(), 0, idle - hk_min(idle, keep), true);
    return bytes + hk_page_heap_unmap(false);
}

bool hk_decay_left_is_due(size_t caches)
{
    size_t held = hk_decay_footprint() + caches, kept = hk_load(xkept);
    if (held < kept)
        hk_store(xkept, held);
    return held > kept + LEAST_LEFT && HK_POLICY(purge_delay) <= HK_PATIENT_MS && !keeps_all() &&
           hk_os.clock_ms() >= hk_load(xleft_at);
}

/* Runs when one thread with a cache remains. Does not purge this thread's slabs, because the thread still allocates from them. */
void hk_decay_left(size_t caches)
{
    hk_idle_inboxes_purge();
    size_t bytes = caches + hk_abandoned_purge() + hk_meta_purge(true) + reclaim_idle(0, 0, SIZE_MAX, true);
    hk_store(xkept, hk_decay_footprint());
    hk_store(xleft_at, hk_os.clock_ms() + bytes / PURGED_PER_MS);
    lower_watermark();
}
