/* Keeps freed large blocks, chooses the block that fits a request best, and unmaps the oldest blocks. Cuts slack off blocks in use. If a system call
 * of the program changes the mapping of a block, marks the block. */
#include "large/large_cache.h"
#include "large/large_state.h"
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
    fit->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    fit->count++;
}

void hk_fit_remove(struct hk_fit *fit, struct hk_large_block *large)
{
    unsigned bin = bin_of(large->d.bytes);
    hk_link_remove(&large->by_size);
    fit->count--;
    if (hk_list_empty(&fit->bins[bin]))
        fit->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
}

/* Returns the first filled bin from `bin` up to `last`, or HK_FIT_BINS if no bin is filled. */
static unsigned filled_from(const struct hk_fit *fit, unsigned bin, unsigned last)
{
    for (; bin <= last; bin = (bin / 64 + 1) * 64) {
        uint64_t bits = fit->filled[bin / 64] >> bin % 64;
        if (bits != 0)
            return bin + hk_ctz64(bits) <= last ? bin + hk_ctz64(bits) : HK_FIT_BINS;
    }
    return HK_FIT_BINS;
}

struct search {
    struct hk_want want; /* the request, narrowed to blocks that fit better than `best` */
    struct hk_large_block *best;
    unsigned looks; /* number of blocks that the search may still look at */
};

static void look_into(const struct hk_list *bin, struct search *search)
{
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

/* Returns the block that is nearest in size, or `otherwise` if no block fits. Searches the bin of this size, then the bins of larger blocks, then the
 * bins of smaller blocks. Stops if no other bin can hold a nearer block. */
struct hk_large_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want,
                                      struct hk_large_block *otherwise)
{
    struct search search = {*want, otherwise, MOST_LOOKS};
    unsigned own = bin_of(want->bytes);
    for (unsigned bin = own; (bin = filled_from(fit, bin, bin_of(search.want.least + search.want.range))) < HK_FIT_BINS;
         bin++)
        look_into(&fit->bins[bin], &search);
    for (unsigned bin = own; bin-- > bin_of(search.want.least);)
        if ((fit->filled[bin / 64] >> bin % 64 & 1) != 0)
            look_into(&fit->bins[bin], &search);
    return search.best;
}

static HK_COLD_DATA struct hk_fit sizes; /* holds the kept blocks, and the cached blocks from hk_large.sorted on */

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

void hk_large_spoil_locked(struct hk_large_block *large)
{
    large->idle_since = HK_LARGE_UNSEEN;
    hk_large.totals.cached += large->d.bytes;
    hk_list_push_front(&hk_large.pending_unmap, &large->link);
}

HK_COLD void hk_large_leave_sizes_locked(struct hk_large_block *large)
{
    if (hk_large.sorted == &large->link)
        hk_large.sorted = large->link.next;
    hk_fit_remove(&sizes, large);
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

static uint64_t idle_ms(uint16_t since) { return (uint64_t)hk_age_since(since, hk_reuse_now()) << HK_AGE_SHIFT; }

void hk_large_note_if_missed_locked(size_t bytes)
{
    for (unsigned i = 0; i < HK_LARGE_GHOSTS; i++)
        if (hk_large.ghosts[i].bytes >= bytes && hk_large.ghosts[i].bytes / 2 <= bytes) {
            hk_reuse_back(idle_ms(hk_large.ghosts[i].idle_from), bytes);
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
        if (!kept) /* the reuse of a kept block teaches nothing about the purge delay */
            hk_reuse_back(idle_ms(best->idle_from), best->d.bytes);
        hk_large_leave_cache_locked(best);
        if (HK_UNLIKELY(best->ended)) { /* the entry still says that the block's heap has ended */
            hk_page_map_set(best->d.start, 1, hk_entry(HK_NOBODY, HK_CLASS_LARGE));
            best->ended = false;
        }
        hk_large.totals.blocks++;
        hk_large_set_requested_locked(best, hk_min(bytes, best->d.bytes));
    }
    hk_unlock(&hk_large.lock);
    return best;
}

void hk_large_put_back_locked(struct hk_large_block *large)
{
    (large->modified ? hk_large_spoil_locked : hk_large_put_cached_locked)(large);
}

static struct hk_large_block *oldest_in(const struct hk_list *list)
{
    return hk_list_empty(list) ? NULL : hk_large_of_link(list->head.prev);
}

typedef bool oldest_goes(const struct hk_large_block *oldest, uint64_t argument);

static struct hk_large_block *take_pending_unmap_locked(void)
{
    struct hk_large_block *large = oldest_in(&hk_large.pending_unmap);
    if (large == NULL)
        return NULL;
    hk_link_remove(&large->link);
    hk_large.totals.cached -= large->d.bytes;
    return large;
}

/* Takes the oldest due block out of the cache, or returns NULL. Takes cached blocks first, then kept blocks, then the blocks of pending_unmap. */
static struct hk_large_block *take_due_locked(oldest_goes *due, uint64_t argument)
{
    struct hk_large_block *large = oldest_in(&hk_large.cached);
    if (large == NULL || !due(large, argument))
        large = oldest_in(&hk_large.kept);
    if (large == NULL || !due(large, argument))
        return take_pending_unmap_locked();
    hk_large_leave_cache_locked(large);
    return large;
}

bool hk_large_over_budget(const struct hk_large_block *oldest, uint64_t budget)
{
    (void)oldest;
    return hk_large.totals.cached >
           budget + HK_SLICE; /* a slice more, for the lead of a block as large as the budget */
}

/* Unmaps the oldest blocks while they are due and fewer than `enough` bytes are unmapped. Stops if the system refuses. Returns the unmapped bytes. */
static size_t unmap_while(oldest_goes *due, uint64_t argument, size_t enough)
{
    size_t bytes = 0;
    for (bool going_on = true; going_on && bytes < enough;) {
        hk_lock(&hk_large.lock);
        struct hk_large_block *large = take_due_locked(due, argument);
        hk_unlock(&hk_large.lock);
        if (large == NULL)
            break;
        size_t size = large->d.bytes;
        uint16_t idle_from = large->idle_from;
        going_on = hk_large_unmap(large);
        hk_lock(&hk_large.lock);
        if (going_on) {
            bytes += size;
            hk_large.ghosts[hk_large.next_ghost] =
                (struct hk_large_ghost){size, idle_from, due == hk_large_over_budget};
            hk_large.next_ghost = (hk_large.next_ghost + 1) % HK_LARGE_GHOSTS;
        } else
            hk_large_put_back_locked(large);
        hk_unlock(&hk_large.lock);
    }
    return bytes;
}

static bool idle_before(const struct hk_large_block *oldest, uint64_t stamp) { return oldest->idle_since <= stamp; }

/* Cuts the oldest slack under the lock, because a realloc may grow into this slack at any moment. Returns the number of bytes cut off, or 0. */
static size_t cut_oldest_slack(uint64_t before)
{
    size_t bytes = 0;
    hk_lock(&hk_large.lock);
    struct hk_large_block *large =
        hk_list_empty(&hk_large.with_slack) ? NULL : hk_large_of_slack(hk_large.with_slack.head.prev);
    if (large != NULL && large->idle_since <= before &&
        hk_os.remap((void *)large->d.start, large->d.bytes, large->requested, NULL)) {
        bytes = large->d.bytes - large->requested;
        hk_sub(hk_footprint.xbig, bytes);
        large->d.bytes = large->requested; /* only this field, because the block's thread may be reading the others */
        hk_large.totals.cached -= bytes;
        hk_link_remove(&large->by_slack);
    }
    hk_unlock(&hk_large.lock);
    return bytes;
}

static bool still_over(void)
{
    hk_lock(&hk_large.lock);
    bool over = hk_large_over_budget(NULL, HK_POLICY(large_cache));
    hk_unlock(&hk_large.lock);
    return over;
}

void hk_large_hold_to_budget(void)
{
    if (!still_over())
        return;
    unmap_while(hk_large_over_budget, HK_POLICY(large_cache), SIZE_MAX);
    while (still_over() && cut_oldest_slack(UINT64_MAX) > 0)
        continue;
}

static bool date_if_unseen(struct hk_large_block *large, uint64_t now_ms)
{
    bool unseen = large->idle_since == HK_LARGE_UNSEEN;
    if (unseen)
        large->idle_since = now_ms;
    return unseen;
}

/* Sets the time of all blocks that have no time yet. These are the newest blocks, so they are the first of each list. */
static void date_unseen(uint64_t now_ms)
{
    struct hk_link *cached = &hk_large.cached.head, *with_slack = &hk_large.with_slack.head;
    hk_lock(&hk_large.lock);
    for (struct hk_link *link = cached->next; link != cached && date_if_unseen(hk_large_of_link(link), now_ms);
         link = link->next)
        continue;
    for (struct hk_link *link = with_slack->next; link != with_slack && date_if_unseen(hk_large_of_slack(link), now_ms);
         link = link->next)
        continue;
    hk_unlock(&hk_large.lock);
}

static size_t cut_slack(uint64_t before, size_t enough)
{
    size_t bytes = 0;
    for (size_t cut = 1; bytes < enough && cut > 0; bytes += cut)
        cut = cut_oldest_slack(before);
    return bytes;
}

/* Sets the time of all blocks that have no time yet. Returns the latest idle_since that makes a block due now. */
static uint64_t seen_before(uint64_t now_ms, uint64_t delay_ms)
{
    date_unseen(now_ms);
    return delay_ms == 0 ? HK_LARGE_UNSEEN : now_ms - hk_min(now_ms, delay_ms);
}

size_t hk_large_purge(uint64_t now_ms, uint64_t delay_ms)
{
    uint64_t before = seen_before(now_ms, delay_ms);
    return unmap_while(idle_before, before, SIZE_MAX) + cut_slack(before, SIZE_MAX);
}

size_t hk_large_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough)
{
    uint64_t before = seen_before(now_ms, delay_ms);
    size_t bytes = unmap_while(idle_before, before, enough);
    return delay_ms == 0 && bytes < enough ? bytes + cut_slack(before, enough - bytes) : bytes;
}

static void mark_locked(uintptr_t start, uintptr_t end)
{
    for (struct hk_large_block *large;
         (large = hk_extents_below(&hk_large.extents, end)) != NULL && large->d.start + large->d.bytes > start;) {
        bool cached = hk_link_linked(&large->link) && !large->modified;
        if (cached)
            hk_large_leave_cache_locked(large);
        large->modified = true;
        if (cached)
            hk_large_spoil_locked(large);
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
