#include "big/big_cache.h"

#include "base/bits.h"
#include "big/big_mapping.h"
#include "count/reuse.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"

static HK_COLD_DATA struct hk_fit sizes; /* the kept blocks, and the cached ones from hk_big.sorted on */

static HK_COLD void sort_one_locked(void)
{
    hk_big.sorted = hk_big.sorted->prev;
    hk_fit_add(&sizes, hk_big_of_link(hk_big.sorted));
    hk_big.room_unsorted++;
}

static void enter_cache_locked(struct hk_big_block *big)
{
    hk_big.totals.cached += big->d.bytes;
    hk_list_push_front(&hk_big.cached, &big->link);
    if (HK_UNLIKELY(--hk_big.room_unsorted < 0))
        sort_one_locked();
}

void hk_big_keep_cached_locked(struct hk_big_block *big)
{
    hk_big.totals.cached += big->d.bytes;
    hk_list_push_front(&hk_big.kept, &big->link);
    hk_fit_add(&sizes, big);
}

void hk_big_spoil_locked(struct hk_big_block *big)
{
    big->idle_since = HK_BIG_UNSEEN;
    hk_big.totals.cached += big->d.bytes;
    hk_list_push_front(&hk_big.spoiled, &big->link);
}

HK_COLD void hk_big_leave_sizes_locked(struct hk_big_block *big)
{
    if (hk_big.sorted == &big->link)
        hk_big.sorted = big->link.next;
    hk_fit_remove(&sizes, big);
}

void hk_big_set_requested_locked(struct hk_big_block *big, size_t requested)
{
    hk_store_release(hk_big.xversion, hk_load(hk_big.xversion) + 1);
    big->requested = requested;
    hk_big.totals.live += requested;
    if (requested == big->d.bytes)
        return;
    hk_big.totals.cached += big->d.bytes - requested;
    big->idle_since = HK_BIG_UNSEEN;
    hk_list_push_front(&hk_big.with_slack, &big->by_slack);
}

void hk_big_unset_requested_locked(struct hk_big_block *big)
{
    hk_store_release(hk_big.xversion, hk_load(hk_big.xversion) + 1);
    hk_big.totals.live -= big->requested;
    hk_big.totals.cached -= big->d.bytes - big->requested;
    if (hk_link_linked(&big->by_slack))
        hk_link_remove(&big->by_slack);
}

static bool is_exact(const struct hk_big_block *big, size_t bytes, size_t align)
{
    return big->d.bytes == bytes && (big->d.start & (align - 1)) == 0;
}

static struct hk_big_block *nearest_locked(size_t bytes, size_t align)
{
    struct hk_link *first = hk_big.cached.head.next;
    if (first != hk_big.sorted && is_exact(hk_big_of_link(first), bytes, align))
        return hk_big_of_link(first);
    struct hk_want want = hk_want_for(bytes, hk_big_loosest(bytes), align);
    struct hk_big_block *best = NULL;
    for (struct hk_link *link = first; link != hk_big.sorted; link = link->next) {
        struct hk_big_block *big = hk_big_of_link(link);
        if (HK_LIKELY(!hk_fit_serves(big, &want)))
            continue;
        if (!hk_fit_narrow(&want, big))
            return big;
        best = big;
    }
    return HK_LIKELY(sizes.count == 0) ? best : hk_fit_nearest(&sizes, &want, best);
}

static uint64_t idle_ms(uint16_t since) { return (uint64_t)hk_age_since(since, hk_reuse_now()) << HK_AGE_SHIFT; }

static void note_ghost_locked(size_t bytes, uint16_t idle_from, bool made_room)
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

/* A kept block teaches nothing about the purge delay. */
static bool is_kept(const struct hk_big_block *big)
{
    return big->idle_since != HK_BIG_UNSEEN && big->idle_since > hk_reuse_now();
}

struct hk_big_block *hk_big_take_cached(size_t bytes, size_t align)
{
    hk_lock(&hk_big.lock);
    struct hk_big_block *best = nearest_locked(bytes, align);
    if (best != NULL) {
        if (!is_kept(best))
            hk_reuse_back(idle_ms(best->idle_from), best->d.bytes);
        hk_big_leave_cache_locked(best);
        hk_big.totals.blocks++;
        hk_big_set_requested_locked(best, hk_min(bytes, best->d.bytes));
    }
    hk_unlock(&hk_big.lock);
    return best;
}

/* Reading the clock here would cost as much as all the rest: the next purge writes its own time. */
void hk_big_put_cached_locked(struct hk_big_block *big)
{
    big->idle_since = HK_BIG_UNSEEN;
    enter_cache_locked(big);
}

void hk_big_put_back_locked(struct hk_big_block *big)
{
    (big->altered ? hk_big_spoil_locked : hk_big_put_cached_locked)(big);
}

static struct hk_big_block *oldest_in(const struct hk_list *list)
{
    return hk_list_empty(list) ? NULL : hk_big_of_link(list->head.prev);
}

typedef bool oldest_goes(const struct hk_big_block *oldest, uint64_t argument);

static struct hk_big_block *take_spoiled_locked(void)
{
    struct hk_big_block *big = oldest_in(&hk_big.spoiled);
    if (big == NULL)
        return NULL;
    hk_link_remove(&big->link);
    hk_big.totals.cached -= big->d.bytes;
    return big;
}

/* Kept blocks go last but for spoiled ones. */
static struct hk_big_block *take_due_locked(oldest_goes *due, uint64_t argument)
{
    struct hk_big_block *big = oldest_in(&hk_big.cached);
    if (big == NULL || !due(big, argument))
        big = oldest_in(&hk_big.kept);
    if (big == NULL || !due(big, argument))
        return take_spoiled_locked();
    hk_big_leave_cache_locked(big);
    return big;
}

bool hk_big_over_budget(const struct hk_big_block *oldest, uint64_t budget)
{
    (void)oldest;
    return hk_big.totals.cached > budget;
}

/* Unmaps the oldest blocks while they are due and it is not enough; stops where the system refuses. */
static size_t unmap_while(oldest_goes *due, uint64_t argument, size_t enough)
{
    size_t bytes = 0;
    for (bool going_on = true; going_on && bytes < enough;) {
        hk_lock(&hk_big.lock);
        struct hk_big_block *big = take_due_locked(due, argument);
        hk_unlock(&hk_big.lock);
        if (big == NULL)
            break;
        size_t size = big->d.bytes;
        uint16_t idle_from = big->idle_from;
        going_on = hk_big_unmap(big);
        hk_lock(&hk_big.lock);
        if (going_on) {
            bytes += size;
            note_ghost_locked(size, idle_from, due == hk_big_over_budget);
        } else
            hk_big_put_back_locked(big);
        hk_unlock(&hk_big.lock);
    }
    return bytes;
}

static bool idle_before(const struct hk_big_block *oldest, uint64_t stamp) { return oldest->idle_since <= stamp; }

/* Under the lock: the program may grow into the slack at any moment. Returns bytes; 0 if none is due, or the system refuses. */
static size_t cut_oldest_slack(uint64_t before)
{
    size_t bytes = 0;
    hk_lock(&hk_big.lock);
    struct hk_big_block *big = hk_list_empty(&hk_big.with_slack) ? NULL : hk_big_of_slack(hk_big.with_slack.head.prev);
    if (big != NULL && big->idle_since <= before &&
        hk_os.remap((void *)big->d.start, big->d.bytes, big->requested, NULL)) {
        bytes = big->d.bytes - big->requested;
        hk_sub(hk_footprint.xbig, bytes);
        big->d.bytes = big->requested; /* and no other field: the block's thread may be reading them */
        hk_big.totals.cached -= bytes;
        hk_link_remove(&big->by_slack);
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

static bool date_if_unseen(struct hk_big_block *big, uint64_t now_ms)
{
    bool unseen = big->idle_since == HK_BIG_UNSEEN;
    if (unseen)
        big->idle_since = now_ms;
    return unseen;
}

/* The undated blocks are the newest. */
static void date_unseen(uint64_t now_ms)
{
    struct hk_link *cached = &hk_big.cached.head, *with_slack = &hk_big.with_slack.head;
    hk_lock(&hk_big.lock);
    for (struct hk_link *link = cached->next; link != cached && date_if_unseen(hk_big_of_link(link), now_ms);
         link = link->next)
        continue;
    for (struct hk_link *link = with_slack->next; link != with_slack && date_if_unseen(hk_big_of_slack(link), now_ms);
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

/* Blocks that were in the cache at this time or earlier are due. */
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
