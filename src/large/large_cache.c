/* Keeps freed large blocks, finds the best fit, and unmaps the oldest. Cuts off slack. Marks blocks whose mapping the program changes. */
#include "large/large_cache.h"
#include "count/stats.h"
#include "span/footprint.h"

enum { STEPS_SHIFT = 3, MOST_LOOKS = 64 };

static unsigned bin_of(size_t bytes)
{
    bytes = hk_max(hk_min(bytes, ((size_t)1 << HK_ADDRESS_BITS) - 1), HK_SLICE);
    unsigned octave = 63u - (unsigned)__builtin_clzll(bytes);
    return (octave - HK_SLICE_SHIFT) * HK_FIT_STEPS + (unsigned)(bytes >> (octave - STEPS_SHIFT)) % HK_FIT_STEPS;
}

void hk_fit_add(struct hk_fit *fit, struct hk_large_block *large)
{
    unsigned bin = bin_of(large->d.bytes);
    if (fit->bins[bin].head.next == NULL)
        hk_list_init(&fit->bins[bin]);
    hk_list_push_front(&fit->bins[bin], &large->by_size);
    fit->count++;
}

void hk_fit_remove(struct hk_fit *fit, struct hk_large_block *large)
{
    hk_link_remove(&large->by_size);
    fit->count--;
}

struct search {
    struct hk_want want; /* the request, narrowed to blocks that fit better than `best` */
    struct hk_large_block *best;
    unsigned looks; /* number of blocks that the search may still look at */
};

HK_INLINE void look_into(const struct hk_list *bin, struct search *search)
{
    if (bin->head.next == NULL) /* no block was ever in the bin */
        return;
    for (struct hk_link *link = bin->head.next; link != &bin->head && search->looks > 0; link = link->next) {
        struct hk_large_block *large = hk_container_of(link, struct hk_large_block, by_size);
        search->looks--;
        if (!hk_fit_serves(large, &search->want))
            continue;
        search->best = large;
        if (!hk_fit_narrow(&search->want, large))
            search->looks = 0;
    }
}

/* Searches the bin of this size, then the bins of larger blocks, then those of smaller blocks, until no other bin can hold a nearer block. */
struct hk_large_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want,
                                      struct hk_large_block *otherwise)
{
    struct search search = {*want, otherwise, MOST_LOOKS};
    unsigned own = bin_of(want->bytes);
    for (unsigned bin = own; bin <= bin_of(search.want.least + search.want.range); bin++)
        look_into(&fit->bins[bin], &search);
    for (unsigned bin = own; bin-- > bin_of(search.want.least);)
        look_into(&fit->bins[bin], &search);
    return search.best;
}

static HK_COLD_DATA struct hk_fit sizes; /* bins of all kept blocks, of hk_large.sorted, and of older cached blocks */

HK_COLD void hk_large_sort_one_locked(void)
{
    hk_large.sorted = hk_large.sorted->prev;
    hk_fit_add(&sizes, hk_large_of_link(hk_large.sorted));
    hk_large.room_unsorted++;
}

void hk_large_keep_cached_locked(struct hk_large_block *large)
{
    hk_large.totals.cached += large->d.bytes;
    hk_list_push_front(&hk_large.kept, &large->link);
    hk_fit_add(&sizes, large);
}

/* Puts a modified block on the list pending_unmap until it can be unmapped, so that no request gets the block. */
static void spoil_locked(struct hk_large_block *large)
{
    large->idle_since = HK_LARGE_UNSEEN;
    hk_large.totals.cached += large->d.bytes;
    hk_list_push_front(&hk_large.pending_unmap, &large->link);
}

static HK_COLD void leave_sizes_locked(struct hk_large_block *large)
{
    if (hk_large.sorted == &large->link)
        hk_large.sorted = large->link.next;
    hk_fit_remove(&sizes, large);
}

/* Takes a block out of the cache. The block must not be modified. */
HK_INLINE void leave_cache_locked(struct hk_large_block *large)
{
    hk_large.totals.cached -= large->d.bytes;
    if (HK_LIKELY(!hk_link_linked(&large->by_size)))
        hk_large.room_unsorted++;
    else
        leave_sizes_locked(large);
    hk_link_remove(&large->link);
}

static struct hk_large_block *nearest_locked(size_t bytes, size_t align)
{
    struct hk_link *first = hk_large.cached.head.next;
    if (first != hk_large.sorted && hk_large_is_about(hk_large_of_link(first), bytes) &&
        (hk_large_of_link(first)->d.start & (align - 1)) == 0)
        return hk_large_of_link(first);
    struct hk_want want = hk_want_for(bytes, hk_large_loosest(bytes), align);
    struct hk_large_block *best = NULL;
    for (struct hk_link *link = first; link != hk_large.sorted; link = link->next) {
        struct hk_large_block *large = hk_large_of_link(link);
        if (HK_LIKELY(!hk_fit_serves(large, &want)))
            continue;
        if (!hk_fit_narrow(&want, large))
            return large;
        best = large;
    }
    return HK_LIKELY(sizes.count == 0) ? best : hk_fit_nearest(&sizes, &want, best);
}

void hk_large_note_if_missed_locked(size_t bytes)
{
    for (unsigned i = 0; i < HK_LARGE_GHOSTS; i++)
        if (hk_large.ghosts[i].bytes >= bytes && hk_large.ghosts[i].bytes / 2 <= bytes) {
            hk_reuse_back(hk_age_since(hk_large.ghosts[i].idle_from, hk_reuse_now()), bytes);
            HK_COUNT(large_missed, hk_large.ghosts[i].made_room);
            hk_large.ghosts[i].bytes = 0;
            return;
        }
}

struct hk_large_block *hk_large_take_cached(size_t bytes, size_t align)
{
    hk_lock(&hk_large.lock);
    struct hk_large_block *best = nearest_locked(bytes, align);
    if (best != NULL) {
        bool kept = best->idle_since != HK_LARGE_UNSEEN && best->idle_since > hk_reuse_now();
        if (!kept) /* a kept block ignores the purge delay, so its reuse does not tell whether the delay is right */
            hk_reuse_back(hk_age_since(best->idle_from, hk_reuse_now()), best->d.bytes);
        leave_cache_locked(best);
        if (HK_UNLIKELY(best->ended)) { /* the page map entry still says that the block's heap has ended */
            hk_page_map_set(best->d.start, 1, hk_entry(HK_NOBODY, HK_CLASS_LARGE));
            best->ended = false;
        }
        hk_large.totals.blocks++;
        hk_large_set_requested_locked(best, hk_min(bytes, best->d.bytes));
    }
    hk_unlock(&hk_large.lock);
    return best;
}

bool hk_large_release(struct hk_large_block *large)
{
    if (hk_large_unmap(large))
        return true;
    hk_lock(&hk_large.lock);
    (large->modified ? spoil_locked : hk_large_put_cached_locked)(large);
    hk_unlock(&hk_large.lock);
    return false;
}

static struct hk_large_block *oldest_in(const struct hk_list *list)
{
    return hk_list_empty(list) ? NULL : hk_large_of_link(list->head.prev);
}

/* A block is unmapped because it is old, because it is excess, or because the cache is over its budget. */
enum why { OLD, EXCESS, OVER };
/* Takes the next block to unmap out of its list, or returns NULL. While more bytes are cached than `why` allows, tries the oldest cached block and
 * then, but not for EXCESS, the oldest kept block. Takes them only if idle_since is at most `before`. Last, tries the oldest of pending_unmap. */
static struct hk_large_block *take_due_locked(uint64_t before, enum why why)
{
    const struct hk_list *const lists[] = {&hk_large.cached, &hk_large.kept};
    size_t keep = why == OLD ? 0 : why == OVER ? hk_large_budget() : hk_large_excess_from_locked();
    struct hk_large_block *large;
    for (unsigned i = 0; i < (why == EXCESS ? 1 : 2) && hk_large.totals.cached > keep; i++)
        if ((large = oldest_in(lists[i])) != NULL && large->idle_since <= before) {
            leave_cache_locked(large);
            return large;
        }
    if ((large = oldest_in(&hk_large.pending_unmap)) != NULL) {
        hk_link_remove(&large->link);
        hk_large.totals.cached -= large->d.bytes;
    }
    return large;
}

/* Unmaps the blocks that take_due_locked() returns, until `enough` bytes are unmapped or the system refuses. Returns the unmapped bytes. */
static size_t unmap_while(uint64_t before, enum why why, size_t enough)
{
    size_t bytes = 0;
    while (bytes < enough) {
        struct hk_large_block *large = HK_UNDER(&hk_large.lock, take_due_locked(before, why));
        if (large == NULL)
            break;
        struct hk_large_ghost ghost = {large->d.bytes, large->idle_from, why == OVER};
        if (!hk_large_release(large))
            break;
        bytes += ghost.bytes;
        hk_lock(&hk_large.lock);
        hk_large.ghosts[hk_large.next_ghost] = ghost;
        hk_large.next_ghost = (hk_large.next_ghost + 1) % HK_LARGE_GHOSTS;
        hk_unlock(&hk_large.lock);
    }
    return bytes;
}

/* Cuts off the oldest slack if idle_since of its block is at most `before`, and more than `keep` bytes are cached. Returns the bytes cut off. The
 * system call is made under the lock, because a realloc could otherwise grow into the slack. */
static size_t cut_oldest_slack(uint64_t before, size_t keep)
{
    size_t bytes = 0;
    hk_lock(&hk_large.lock);
    struct hk_list *list = &hk_large.with_slack;
    struct hk_large_block *large = hk_container_of(list->head.prev, struct hk_large_block, by_slack);
    if (hk_large.totals.cached > keep && !hk_list_empty(list) && large->idle_since <= before &&
        hk_os.remap((void *)large->d.start, large->d.bytes, large->requested, NULL)) {
        bytes = large->d.bytes - large->requested;
        hk_sub(hk_footprint.xbig, bytes);
        large->d.bytes = large->requested; /* no other field changes, because the block's thread may read the others */
        hk_large.totals.cached -= bytes;
        hk_link_remove(&large->by_slack);
    }
    hk_unlock(&hk_large.lock);
    return bytes;
}

_Atomic size_t hk_large_allowed = 8 * HK_MIB + HK_SLICE;

void hk_large_hold_to_budget(void)
{
    unmap_while(HK_LARGE_UNSEEN, OVER, SIZE_MAX);
    while (cut_oldest_slack(HK_LARGE_UNSEEN, hk_large_budget()) > 0)
        continue;
    if (hk_policy_purges_excess())
        HK_COUNT(purged_excess, unmap_while(HK_LARGE_UNSEEN, EXCESS, SIZE_MAX));
}

/* Sets idle_since of those blocks of a list that no purge has seen yet. These are the newest blocks, so they come first in the list. `place` is the
 * offset in struct hk_large_block of the links that form the list. */
static void date_unseen_locked(const struct hk_list *list, size_t place, uint64_t now_ms)
{
    for (struct hk_link *link = list->head.next; link != &list->head; link = link->next) {
        struct hk_large_block *large = (void *)((char *)link - place);
        if (large->idle_since != HK_LARGE_UNSEEN)
            return;
        large->idle_since = now_ms;
    }
}

size_t hk_large_purge(uint64_t now_ms, uint64_t delay_ms, size_t enough)
{
    uint64_t before = delay_ms == 0 ? HK_LARGE_UNSEEN : now_ms - hk_min(now_ms, delay_ms);
    hk_lock(&hk_large.lock);
    date_unseen_locked(&hk_large.cached, offsetof(struct hk_large_block, link), now_ms);
    date_unseen_locked(&hk_large.with_slack, offsetof(struct hk_large_block, by_slack), now_ms);
    hk_unlock(&hk_large.lock);
    size_t bytes = unmap_while(before, OLD, enough);
    bool cuts = delay_ms == 0 || enough == SIZE_MAX;
    for (size_t cut = 1; cuts && bytes < enough && cut > 0; bytes += cut)
        cut = cut_oldest_slack(before, 0);
    return bytes;
}

static void mark_locked(uintptr_t start, uintptr_t end)
{
    for (struct hk_large_block *large;
         (large = hk_extents_nearest(end, HK_LOWER)) != NULL && large->d.start + large->d.bytes > start;) {
        if (hk_link_linked(&large->link) && !large->modified) {
            leave_cache_locked(large);
            spoil_locked(large);
        }
        large->modified = true;
        end = large->d.start;
    }
}

void hk_large_note_modified(uintptr_t start, size_t size)
{
    uintptr_t end = start + hk_min(size, UINTPTR_MAX - start);
    if (start >= hk_load(hk_large.xhighest) || end <= hk_load(hk_large.xlowest))
        return;
    if (hk_large_lock_in_some_tries()) {
        mark_locked(start, end);
        hk_unlock(&hk_large.lock);
    } else
        hk_store(hk_large.xunnoted, true);
}

void hk_large_mark_all_locked(void)
{
    hk_store(hk_large.xunnoted, false);
    mark_locked(0, UINTPTR_MAX);
}

size_t hk_large_leave_out_of_core(void)
{
    const struct hk_list *const lists[] = {&hk_large.cached, &hk_large.kept};
    size_t bytes = 0;
    if (!HK_COMES_TRUE(hk_try_lock(&hk_large.lock), HK_PAUSES_A_SECOND))
        return 0;
    for (unsigned i = 0; i < 2; i++)
        for (struct hk_link *link = lists[i]->head.next; link != &lists[i]->head; link = link->next)
            bytes += hk_os_leave_out_of_core(hk_large_of_link(link)->d.start, hk_large_of_link(link)->d.bytes);
    hk_unlock(&hk_large.lock);
    return bytes;
}
