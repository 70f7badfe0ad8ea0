#include "big/big_cache.h"

#include "base/bits.h"
#include "big/big_mapping.h"
#include "count/reuse.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"

static HK_COLD_DATA struct hk_fit sizes; /* the kept, and the cached but for the newest */

static HK_COLD void sort_one_locked(void)
{
    hk_big.sorted = hk_big.sorted->prev;
    hk_fit_add(&sizes, hk_big_of_link(hk_big.sorted));
    hk_big.room_unsorted++;
}

static void enter_cache_locked(struct hk_slab *slab)
{
    hk_big.totals.cached += slab->bytes;
    hk_list_push_front(&hk_big.cached, &slab->link);
    if (HK_UNLIKELY(--hk_big.room_unsorted < 0))
        sort_one_locked();
}

void hk_big_keep_cached_locked(struct hk_slab *slab)
{
    hk_big.totals.cached += slab->bytes;
    hk_list_push_front(&hk_big.kept, &slab->link);
    hk_fit_add(&sizes, slab);
}

void hk_big_spoil_locked(struct hk_slab *slab)
{
    slab->idle_since = HK_BIG_UNSEEN;
    hk_big.totals.cached += slab->bytes;
    hk_list_push_front(&hk_big.spoiled, &slab->link);
}

HK_COLD void hk_big_leave_sizes_locked(struct hk_slab *slab)
{
    if (hk_big.sorted == &slab->link)
        hk_big.sorted = slab->link.next;
    hk_fit_remove(&sizes, slab);
}

/* The part of its mapping that a block has. What is left over stays warm behind it: a buffer that grows will want it, and
 * the next purge but one takes it. */
void hk_big_set_requested_locked(struct hk_slab *slab, size_t requested)
{
    slab->requested = requested;
    hk_big.totals.live += requested;
    if (requested == slab->bytes)
        return;
    hk_big.totals.cached += slab->bytes - requested;
    slab->idle_since = HK_BIG_UNSEEN;
    hk_list_push_front(&hk_big.spares, &slab->by_slack);
}

void hk_big_unset_requested_locked(struct hk_slab *slab)
{
    hk_big.totals.live -= slab->requested;
    hk_big.totals.cached -= slab->bytes - slab->requested;
    if (hk_link_linked(&slab->by_slack))
        hk_link_remove(&slab->by_slack);
}

static struct hk_slab *nearest_locked(size_t bytes, size_t align)
{
    const struct hk_want want = {bytes, hk_big_loosest(bytes), align};
    struct hk_slab *best = NULL;
    size_t nearest = SIZE_MAX;
    for (struct hk_link *link = hk_big.cached.head.next; link != hk_big.sorted; link = link->next) {
        struct hk_slab *slab = hk_big_of_link(link);
        if (slab->bytes == bytes && (slab->start & (align - 1)) == 0)
            return slab;
        size_t away = hk_fit_distance(slab, bytes);
        if (away >= nearest || !hk_fit_serves(slab, &want))
            continue;
        best = slab;
        nearest = away;
    }
    return HK_LIKELY(sizes.count == 0) ? best : hk_fit_nearest(&sizes, &want, best);
}

static uint64_t idle_ms(uint16_t since) { return (uint64_t)hk_age_since(since, hk_reuse_now()) << HK_AGE_SHIFT; }

static void bury_locked(size_t bytes, uint16_t idle_from, bool made_room)
{
    hk_big.ghosts[hk_big.next_ghost] = (struct hk_big_ghost){bytes, idle_from, made_room};
    hk_big.next_ghost = (hk_big.next_ghost + 1) % HK_BIG_GHOSTS;
}

void hk_big_note_if_missed_locked(size_t bytes)
{
    for (unsigned i = 0; i < HK_BIG_GHOSTS; i++)
        if (hk_big.ghosts[i].bytes >= bytes && hk_big.ghosts[i].bytes / 2 <= bytes) {
            hk_reuse_back(idle_ms(hk_big.ghosts[i].idle_from), bytes);
            HK_COUNT(big_missed, hk_big.ghosts[i].made_room);
            hk_big.ghosts[i].bytes = 0;
            return;
        }
}

/* Nothing is learned from it about what nobody keeps. */
static bool is_kept(const struct hk_slab *slab)
{
    return slab->idle_since != HK_BIG_UNSEEN && slab->idle_since > hk_reuse_now();
}

struct hk_slab *hk_big_take_cached(size_t bytes, size_t align)
{
    hk_lock(&hk_big.lock);
    struct hk_slab *best = nearest_locked(bytes, align);
    if (best != NULL) {
        if (!is_kept(best))
            hk_reuse_back(idle_ms(best->idle_from), best->bytes);
        hk_big_leave_cache_locked(best);
        hk_big.totals.blocks++;
        hk_big_set_requested_locked(best, hk_min(bytes, best->bytes));
    }
    hk_unlock(&hk_big.lock);
    return best;
}

/* When it came is not asked for, which would cost as much as all the rest: the next purge notes when it first saw it. */
void hk_big_put_cached_locked(struct hk_slab *slab)
{
    slab->idle_since = HK_BIG_UNSEEN;
    enter_cache_locked(slab);
}

void hk_big_put_back_locked(struct hk_slab *slab)
{
    (slab->altered ? hk_big_spoil_locked : hk_big_put_cached_locked)(slab);
}

static struct hk_slab *oldest_in(const struct hk_list *list)
{
    return hk_list_empty(list) ? NULL : hk_big_of_link(list->head.prev);
}

typedef bool oldest_goes(const struct hk_slab *oldest, uint64_t argument);

static struct hk_slab *take_spoiled_locked(void)
{
    struct hk_slab *slab = oldest_in(&hk_big.spoiled);
    if (slab == NULL)
        return NULL;
    hk_link_remove(&slab->link);
    hk_big.totals.cached -= slab->bytes;
    return slab;
}

/* What is kept goes last but for what the system would not take before. */
static struct hk_slab *take_due_locked(oldest_goes *due, uint64_t argument)
{
    struct hk_slab *slab = oldest_in(&hk_big.cached);
    if (slab == NULL || !due(slab, argument))
        slab = oldest_in(&hk_big.kept);
    if (slab == NULL || !due(slab, argument))
        return take_spoiled_locked();
    hk_big_leave_cache_locked(slab);
    return slab;
}

bool hk_big_over_budget(const struct hk_slab *oldest, uint64_t budget)
{
    (void)oldest;
    return hk_big.totals.cached > budget;
}

/* Unmaps the oldest while `due` says so and it is not enough; stops when the system will not. */
static size_t unmap_while(oldest_goes *due, uint64_t argument, size_t enough)
{
    size_t bytes = 0;
    for (bool going_on = true; going_on && bytes < enough;) {
        hk_lock(&hk_big.lock);
        struct hk_slab *slab = take_due_locked(due, argument);
        hk_unlock(&hk_big.lock);
        if (slab == NULL)
            break;
        size_t size = slab->bytes;
        uint16_t idle_from = slab->idle_from;
        going_on = hk_big_unmap(slab);
        hk_lock(&hk_big.lock);
        if (going_on) {
            bytes += size;
            bury_locked(size, idle_from, due == hk_big_over_budget);
        } else
            hk_big_put_back_locked(slab);
        hk_unlock(&hk_big.lock);
    }
    return bytes;
}

static bool idle_before(const struct hk_slab *oldest, uint64_t stamp) { return oldest->idle_since <= stamp; }

/* Under the lock: the program may want the spare at any moment. The bytes; 0 if none is due, or the system will not. */
static size_t cut_oldest_slack(uint64_t before)
{
    size_t bytes = 0;
    hk_lock(&hk_big.lock);
    struct hk_slab *slab = hk_list_empty(&hk_big.spares) ? NULL : hk_big_of_slack(hk_big.spares.head.prev);
    if (slab != NULL && slab->idle_since <= before &&
        hk_os.remap((void *)slab->start, slab->bytes, slab->requested, NULL)) {
        bytes = slab->bytes - slab->requested;
        hk_sub(hk_footprint.xbig, bytes);
        slab->bytes = slab->requested; /* and no other field: its thread may be reading them */
        hk_big.totals.cached -= bytes;
        hk_link_remove(&slab->by_slack);
    }
    hk_unlock(&hk_big.lock);
    return bytes;
}

static bool still_over(void)
{
    hk_lock(&hk_big.lock);
    bool over = hk_big_over_budget(NULL, HK_POLICY(big_cache));
    hk_unlock(&hk_big.lock);
    return over;
}

void hk_big_hold_to_budget(void)
{
    if (!still_over())
        return;
    unmap_while(hk_big_over_budget, HK_POLICY(big_cache), SIZE_MAX);
    while (still_over() && cut_oldest_slack(UINT64_MAX) > 0)
        continue;
}

static bool date_if_unseen(struct hk_slab *slab, uint64_t now_ms)
{
    bool unseen = slab->idle_since == HK_BIG_UNSEEN;
    if (unseen)
        slab->idle_since = now_ms;
    return unseen;
}

/* The unseen are the newest. */
static void date_unseen(uint64_t now_ms)
{
    struct hk_link *cached = &hk_big.cached.head, *spares = &hk_big.spares.head;
    hk_lock(&hk_big.lock);
    for (struct hk_link *link = cached->next; link != cached && date_if_unseen(hk_big_of_link(link), now_ms);
         link = link->next)
        continue;
    for (struct hk_link *link = spares->next; link != spares && date_if_unseen(hk_big_of_slack(link), now_ms);
         link = link->next)
        continue;
    hk_unlock(&hk_big.lock);
}

static size_t cut_slack(uint64_t before)
{
    size_t bytes = 0;
    for (size_t cut; (cut = cut_oldest_slack(before)) > 0;)
        bytes += cut;
    return bytes;
}

/* What the cache has held no later than at this time is due. */
static uint64_t seen_before(uint64_t now_ms, uint64_t delay_ms)
{
    date_unseen(now_ms);
    return delay_ms == 0 ? HK_BIG_UNSEEN : now_ms - hk_min(now_ms, delay_ms);
}

size_t hk_big_purge(uint64_t now_ms, uint64_t delay_ms)
{
    uint64_t before = seen_before(now_ms, delay_ms);
    return unmap_while(idle_before, before, SIZE_MAX) + cut_slack(before);
}

size_t hk_big_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough)
{
    uint64_t before = seen_before(now_ms, delay_ms);
    size_t bytes = unmap_while(idle_before, before, enough);
    for (size_t cut = 1; delay_ms == 0 && bytes < enough && cut > 0; bytes += cut)
        cut = cut_oldest_slack(before);
    return bytes;
}
