#include "tiers/bigcache.h"

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "count/reuse.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/held.h"
#include "span/thp.h"
#include "tiers/extents.h"
#include "tiers/fitting.h"

#define UNSEEN UINT64_MAX
enum {
    TIMES_GONE = 4,        /* its own size: a buffer like those that come and go */
    WORTH_IF_GONE = 3,     /* to round such a buffer up to whole huge pages may add a third, */
    WORTH_AT_ONCE = 16,    /* another block a sixteenth */
    BLOCKS_AT_STAKE = 8,   /* so many more may turn out to be used here and there, whatever else the heap holds */
    GHOSTS = 32,
    MOST_UNSORTED = 64, /* so many are looked through as fast as found */
    TRIES_TO_NOTE = 100, /* the lock is held for less */
};

static struct {
    struct hk_lock lock;
    struct hk_list cached; /* newest first */
    struct hk_list kept;   /* cached, but no purge is to take it before its time: idle_since lies ahead; newest first */
    struct ghost {
        size_t bytes;
        uint16_t idle_from;
        bool made_room;
    } ghosts[GHOSTS]; /* what was unmapped last */
    unsigned next_ghost;
    struct hk_list spoiled; /* altered, and the system would not take them yet */
    struct hk_link *sorted; /* of `cached`: what lies from here on is in `sizes` too */
    int room_unsorted;      /* so many more may lie before it */
    struct hk_list spares; /* blocks in use whose mapping is longer than they are; newest first */
    struct hk_extents extents; /* all mappings, but for those that are just changing */
    struct hk_big_totals totals;
    _Atomic uintptr_t xlowest, xhighest; /* where mappings have ever been */
    _Atomic bool xunnoted;               /* a change was seen, but not of what */
    _Atomic uint64_t xgone; /* bytes of blocks of huge_blocks_from and more that were freed, ever */
    _Atomic size_t xon_huge_pages; /* blocks */
} big = {.lock = HK_LOCK_INIT(HK_RANK_BIG)};

static HK_COLD_DATA struct hk_fitting sizes; /* the kept, and the cached but for the newest */

void hk_big_init(void)
{
    hk_lock_register(HK_RANK_BIG, &big.lock);
    hk_list_init(&big.cached);
    hk_list_init(&big.kept);
    hk_list_init(&big.spoiled);
    big.sorted = &big.cached.head;
    big.room_unsorted = MOST_UNSORTED;
    hk_list_init(&big.spares);
}

static struct hk_slab *of_link(struct hk_link *link) { return hk_container_of(link, struct hk_slab, link); }
static struct hk_slab *of_spare(struct hk_link *link) { return hk_container_of(link, struct hk_slab, by_spare); }

/* The most that a block may have which serves so many bytes. */
static size_t loosest(size_t bytes) { return bytes * HK_POLICY(big_fit) / 100; }

static bool fits(const struct hk_slab *slab, size_t bytes, size_t most) { return slab->bytes >= bytes && slab->bytes <= most; }

static HK_COLD void sort_one_locked(void)
{
    big.sorted = big.sorted->prev;
    hk_fitting_add(&sizes, of_link(big.sorted));
    big.room_unsorted++;
}

static void enter_cache_locked(struct hk_slab *slab)
{
    big.totals.cached += slab->bytes;
    hk_list_push_front(&big.cached, &slab->link);
    if (HK_UNLIKELY(--big.room_unsorted < 0))
        sort_one_locked();
}

static void spoil_locked(struct hk_slab *slab)
{
    slab->idle_since = UNSEEN;
    big.totals.cached += slab->bytes;
    hk_list_push_front(&big.spoiled, &slab->link);
}

static HK_COLD void leave_sizes_locked(struct hk_slab *slab)
{
    if (big.sorted == &slab->link)
        big.sorted = slab->link.next;
    hk_fitting_remove(&sizes, slab);
}

/* Not of the spoiled. */
HK_INLINE void leave_cache_locked(struct hk_slab *slab)
{
    big.totals.cached -= slab->bytes;
    if (HK_LIKELY(!hk_link_linked(&slab->by_size)))
        big.room_unsorted++;
    else
        leave_sizes_locked(slab);
    hk_link_remove(&slab->link);
}

static void index_locked(struct hk_slab *slab)
{
    hk_extents_add(&big.extents, slab);
    uintptr_t lowest = hk_load(big.xlowest), end = slab->start + slab->bytes;
    hk_store(big.xlowest, lowest == 0 ? slab->start : hk_min(lowest, slab->start));
    hk_store(big.xhighest, hk_max(hk_load(big.xhighest), end));
}

static void index_again(struct hk_slab *slab)
{
    hk_lock(&big.lock);
    index_locked(slab);
    hk_unlock(&big.lock);
}

static void unindex(struct hk_slab *slab)
{
    hk_lock(&big.lock);
    hk_extents_remove(&big.extents, slab);
    hk_unlock(&big.lock);
}

static void alter_locked(struct hk_slab *slab)
{
    bool cached = hk_link_linked(&slab->link) && !slab->altered;
    if (cached)
        leave_cache_locked(slab);
    slab->altered = true;
    if (cached)
        spoil_locked(slab);
}

static void mark_locked(uintptr_t start, uintptr_t end)
{
    for (struct hk_slab *slab; (slab = hk_extents_below(&big.extents, end)) != NULL && slab->start + slab->bytes > start;) {
        alter_locked(slab);
        end = slab->start;
    }
}

/* Not a wait: the thread that holds the lock may be this one, below a signal handler. */
static bool lock_in_some_tries(void)
{
    for (int i = 0; i < TRIES_TO_NOTE; i++) {
        if (hk_try_lock(&big.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}

void hk_big_note_altered(uintptr_t start, size_t size)
{
    uintptr_t end = start + hk_min(size, UINTPTR_MAX - start);
    if (start >= hk_load(big.xhighest) || end <= hk_load(big.xlowest))
        return;
    if (lock_in_some_tries()) {
        mark_locked(start, end);
        hk_unlock(&big.lock);
    } else
        hk_store(big.xunnoted, true);
}

/* Any of them may be what was changed. */
static HK_COLD void mark_all_locked(void)
{
    hk_store(big.xunnoted, false);
    mark_locked(0, UINTPTR_MAX);
}

/* The part of its mapping that a block has. What is left over stays warm behind it: a buffer that grows will want it, and
 * the next purge but one takes it. */
static void set_asked_locked(struct hk_slab *slab, size_t asked)
{
    slab->asked = asked;
    big.totals.live += asked;
    if (asked == slab->bytes)
        return;
    big.totals.cached += slab->bytes - asked;
    slab->idle_since = UNSEEN;
    hk_list_push_front(&big.spares, &slab->by_spare);
}

static void unset_asked_locked(struct hk_slab *slab)
{
    big.totals.live -= slab->asked;
    big.totals.cached -= slab->bytes - slab->asked;
    if (hk_link_linked(&slab->by_spare))
        hk_link_remove(&slab->by_spare);
}

static struct hk_slab *nearest_locked(size_t bytes, size_t align)
{
    const struct hk_want want = {bytes, loosest(bytes), align};
    struct hk_slab *best = NULL;
    size_t nearest = SIZE_MAX;
    for (struct hk_link *link = big.cached.head.next; link != big.sorted; link = link->next) {
        struct hk_slab *slab = of_link(link);
        if (slab->bytes == bytes && (slab->start & (align - 1)) == 0)
            return slab;
        size_t away = hk_fitting_distance(slab, bytes);
        if (away >= nearest || !hk_fitting_serves(slab, &want))
            continue;
        best = slab;
        nearest = away;
    }
    return HK_LIKELY(sizes.count == 0) ? best : hk_fitting_nearest(&sizes, &want, best);
}

static uint64_t idle_ms(uint16_t since) { return (uint64_t)hk_age_since(since, hk_reuse_now()) << HK_AGE_SHIFT; }

static void bury_locked(size_t bytes, uint16_t idle_from, bool made_room)
{
    big.ghosts[big.next_ghost] = (struct ghost){bytes, idle_from, made_room};
    big.next_ghost = (big.next_ghost + 1) % GHOSTS;
}

/* A block that is mapped anew where one as large has just been unmapped: it was wanted again. */
static void note_if_missed_locked(size_t bytes)
{
    for (unsigned i = 0; i < GHOSTS; i++)
        if (big.ghosts[i].bytes >= bytes && big.ghosts[i].bytes / 2 <= bytes) {
            hk_reuse_back(idle_ms(big.ghosts[i].idle_from), bytes);
            HK_COUNT(big_missed, big.ghosts[i].made_room);
            big.ghosts[i].bytes = 0;
            return;
        }
}

/* Nothing is learned from it about what nobody keeps. */
static bool is_kept(const struct hk_slab *slab)
{
    return slab->idle_since != UNSEEN && slab->idle_since > hk_reuse_now();
}

static struct hk_slab *take_cached(size_t bytes, size_t align)
{
    hk_lock(&big.lock);
    struct hk_slab *best = nearest_locked(bytes, align);
    if (best != NULL) {
        if (!is_kept(best))
            hk_reuse_back(idle_ms(best->idle_from), best->bytes);
        leave_cache_locked(best);
        big.totals.blocks++;
        set_asked_locked(best, hk_min(bytes, best->bytes));
    }
    hk_unlock(&big.lock);
    return best;
}

static void enter(struct hk_slab *slab, uintptr_t start, size_t bytes)
{
    hk_add(hk_held.xbigs, bytes - slab->bytes);
    slab->start = start;
    slab->bytes = slab->asked = bytes;
    slab->block_size = (uint32_t)hk_min(bytes, UINT32_MAX);
    slab->blocks = 1;
    slab->class = HK_CLASS_BIG;
    hk_map_assign(start, 1, hk_route(HK_NOBODY, HK_CLASS_BIG), slab);
}

static void *map_covered(size_t bytes, size_t align)
{
    void *p = hk_os_map_aligned(bytes, align);
    if (p == NULL || hk_map_cover((uintptr_t)p, 1))
        return p;
    hk_os.unmap(p, bytes);
    return NULL;
}

static bool comes_and_goes(size_t bytes) { return hk_load(big.xgone) / TIMES_GONE >= bytes; }

/* A table that is reserved and used here and there costs a huge page where it would cost a small one. */
static bool may_stake_more(void)
{
    size_t staked = hk_load(big.xon_huge_pages) * HK_SUPER;
    return staked < BLOCKS_AT_STAKE * HK_SUPER || staked < hk_runs_stake();
}

static bool suits_huge_pages(size_t bytes)
{
    uint64_t from = HK_POLICY(huge_blocks_from);
    return from != 0 && bytes >= from && hk_thp_serves() && (comes_and_goes(bytes) || may_stake_more());
}

static bool has_room_for_spare(size_t more)
{
    hk_lock(&big.lock);
    bool room = big.totals.cached + more <= HK_POLICY(big_cache);
    hk_unlock(&big.lock);
    return room && HK_POLICY(purge_delay) != 0;
}

/* What is added is kept for the block to grow into, and cut off when it has not for long. It is to serve the same size again when it
 * has been freed. */
static size_t in_whole_huge_pages(size_t bytes)
{
    size_t whole = hk_align_up(bytes, HK_SUPER), added = whole - bytes;
    size_t most = bytes / (comes_and_goes(bytes) ? WORTH_IF_GONE : WORTH_AT_ONCE);
    bool worth = added > 0 && added <= most && whole <= loosest(bytes) && suits_huge_pages(bytes);
    return worth && hk_held_allows(whole) && has_room_for_spare(added) ? whole : bytes;
}

static bool has_huge_pages(size_t mapped) { return mapped >= HK_SUPER && suits_huge_pages(mapped); }

static void *map_suited(size_t bytes, size_t align)
{
    void *p = has_huge_pages(bytes) ? map_covered(bytes, hk_max(align, HK_SUPER)) : NULL;
    return p != NULL ? p : map_covered(bytes, align);
}

static void *map_if_allowed(size_t bytes, size_t align)
{
    return hk_held_allows(bytes) ? map_suited(bytes, align) : NULL;
}

/* Once for the block: a mapping keeps it when it is remapped. */
static void advise(struct hk_slab *slab)
{
    if (slab->huge || !has_huge_pages(slab->bytes) || !hk_os.advise_huge((void *)slab->start, slab->bytes, true))
        return;
    slab->huge = true;
    hk_add(big.xon_huge_pages, 1);
}

static struct hk_slab *map_new(size_t asked, size_t align)
{
    struct hk_slab *slab = hk_slab_descriptor();
    if (slab == NULL)
        return NULL;
    slab->bytes = 0;
    slab->altered = slab->huge = false;
    size_t bytes = in_whole_huge_pages(asked);
    void *p = map_if_allowed(bytes, align);
    if (p == NULL && bytes != asked)
        p = map_if_allowed(bytes = asked, align);
    if (p == NULL && hk_big_purge(0, 0) > 0)
        p = map_if_allowed(bytes, align);
    if (p == NULL) {
        hk_held_refused(!hk_held_allows(bytes));
        hk_slab_descriptor_drop(slab);
        return NULL;
    }
    enter(slab, (uintptr_t)p, bytes);
    advise(slab);
    HK_COUNT(big_mapped, 1);
    HK_COUNT(big_fresh, asked);
    hk_lock(&big.lock);
    note_if_missed_locked(asked);
    index_locked(slab);
    set_asked_locked(slab, asked);
    big.totals.blocks++;
    hk_unlock(&big.lock);
    return slab;
}

static void *resize(struct hk_slab *slab, size_t bytes);

/* A cached block whose pages are used again, longer by what it lacks. */
static struct hk_slab *reuse(size_t bytes, size_t align)
{
    struct hk_slab *slab = take_cached(bytes, align);
    if (slab == NULL || slab->asked == bytes || resize(slab, bytes) != NULL)
        return slab;
    hk_big_free((void *)slab->start);
    return NULL;
}

void *hk_big_alloc(size_t size, size_t align, bool *zeroed)
{
    if (size > PTRDIFF_MAX - HK_UNIT || align > PTRDIFF_MAX / 2)
        return NULL;
    size_t bytes = hk_align_up(hk_max(size, HK_UNIT), HK_PAGE);
    align = hk_max(align, HK_PAGE);
    struct hk_slab *slab = reuse(bytes, align);
    *zeroed = slab == NULL;
    if (slab != NULL)
        HK_COUNT(big_reused, 1);
    else
        slab = map_new(bytes, align);
    return slab != NULL ? (void *)slab->start : NULL;
}

/* The block's slab; fatal unless `block` is where a big block in use begins. */
static struct hk_slab *checked_slab(enum hk_call call, const void *block)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    if (slab->start != (uintptr_t)block)
        hk_slab_invalid(call, "pointer inside a block", block);
    if (hk_link_linked(&slab->link))
        hk_slab_invalid(call, "block already free", block);
    return slab;
}

void hk_big_check(enum hk_call call, const void *block)
{
    hk_lock(&big.lock);
    (void)checked_slab(call, block);
    hk_unlock(&big.lock);
}

/* The route goes before the mapping. What the system will not unmap stays cached, without its pages. */
static bool unmap(struct hk_slab *slab)
{
    uintptr_t start = slab->start;
    uint32_t route = hk_load(*hk_map_route(start));
    unindex(slab);
    hk_map_route_all(start, 1, 0);
    if (hk_os.unmap((void *)start, slab->bytes)) {
        hk_sub(hk_held.xbigs, slab->bytes);
        hk_sub(big.xon_huge_pages, slab->huge);
        hk_slab_descriptor_drop(slab);
        return true;
    }
    hk_map_route_all(start, 1, route);
    index_again(slab);
    hk_os.purge((void *)start, slab->bytes);
    return false;
}

/* When it came is not asked for, which would cost as much as all the rest: the next purge notes when it first saw it. */
static void put_cached_locked(struct hk_slab *slab)
{
    slab->idle_since = UNSEEN;
    enter_cache_locked(slab);
}

/* What the system will not take. What is altered serves nobody. */
static void put_back_locked(struct hk_slab *slab)
{
    (slab->altered ? spoil_locked : put_cached_locked)(slab);
}

static struct hk_slab *oldest_in(const struct hk_list *list)
{
    return hk_list_empty(list) ? NULL : of_link(list->head.prev);
}

typedef bool oldest_goes(const struct hk_slab *oldest, uint64_t argument);

static struct hk_slab *take_spoiled_locked(void)
{
    struct hk_slab *slab = oldest_in(&big.spoiled);
    if (slab == NULL)
        return NULL;
    hk_link_remove(&slab->link);
    big.totals.cached -= slab->bytes;
    return slab;
}

/* What is kept goes last but for what the system would not take before. */
static struct hk_slab *take_due_locked(oldest_goes *due, uint64_t argument)
{
    struct hk_slab *slab = oldest_in(&big.cached);
    if (slab == NULL || !due(slab, argument))
        slab = oldest_in(&big.kept);
    if (slab == NULL || !due(slab, argument))
        return take_spoiled_locked();
    leave_cache_locked(slab);
    return slab;
}

static bool over_budget(const struct hk_slab *oldest, uint64_t budget)
{
    (void)oldest;
    return big.totals.cached > budget;
}

/* Unmaps the oldest while `due` says so and it is not enough; stops when the system will not. */
static size_t unmap_while(oldest_goes *due, uint64_t argument, size_t enough)
{
    size_t bytes = 0;
    for (bool going_on = true; going_on && bytes < enough;) {
        hk_lock(&big.lock);
        struct hk_slab *slab = take_due_locked(due, argument);
        hk_unlock(&big.lock);
        if (slab == NULL)
            break;
        size_t size = slab->bytes;
        uint16_t idle_from = slab->idle_from;
        going_on = unmap(slab);
        hk_lock(&big.lock);
        if (going_on) {
            bytes += size;
            bury_locked(size, idle_from, due == over_budget);
        } else
            put_back_locked(slab);
        hk_unlock(&big.lock);
    }
    return bytes;
}

static bool idle_before(const struct hk_slab *oldest, uint64_t stamp) { return oldest->idle_since <= stamp; }

/* Under the lock: the program may want the spare at any moment. The bytes; 0 if none is due, or the system will not. */
static size_t cut_oldest_spare(uint64_t before)
{
    size_t bytes = 0;
    hk_lock(&big.lock);
    struct hk_slab *slab = hk_list_empty(&big.spares) ? NULL : of_spare(big.spares.head.prev);
    if (slab != NULL && slab->idle_since <= before &&
        hk_os.remap((void *)slab->start, slab->bytes, slab->asked, NULL)) {
        bytes = slab->bytes - slab->asked;
        hk_sub(hk_held.xbigs, bytes);
        slab->bytes = slab->asked; /* and no other field: its thread may be reading them */
        big.totals.cached -= bytes;
        hk_link_remove(&slab->by_spare);
    }
    hk_unlock(&big.lock);
    return bytes;
}

static bool still_over(void)
{
    hk_lock(&big.lock);
    bool over = over_budget(NULL, HK_POLICY(big_cache));
    hk_unlock(&big.lock);
    return over;
}

static void hold_to_budget(void)
{
    if (!still_over())
        return;
    unmap_while(over_budget, HK_POLICY(big_cache), SIZE_MAX);
    while (still_over() && cut_oldest_spare(UINT64_MAX) > 0)
        continue;
}

static struct hk_slab *retire_locked(void *block)
{
    struct hk_slab *slab = checked_slab(HK_CALL_FREE, block);
    if (HK_UNLIKELY(hk_load(big.xunnoted)))
        mark_all_locked();
    if (slab->asked >= HK_POLICY(huge_blocks_from))
        hk_store(big.xgone, hk_load(big.xgone) + slab->asked);
    unset_asked_locked(slab);
    big.totals.blocks--;
    slab->idle_from = hk_age_stamp(hk_reuse_now());
    return slab;
}

static void unmap_retired(struct hk_slab *slab)
{
    if (unmap(slab))
        return;
    hk_lock(&big.lock);
    put_back_locked(slab);
    hk_unlock(&big.lock);
}

static HK_COLD void unmap_altered(struct hk_slab *slab)
{
    HK_COUNT(big_altered, 1);
    unmap_retired(slab);
}

void hk_big_free(void *block)
{
    hk_lock(&big.lock);
    struct hk_slab *slab = retire_locked(block);
    if (HK_UNLIKELY(slab->altered)) {
        hk_unlock(&big.lock);
        unmap_altered(slab);
        return;
    }
    hk_reuse_idled(slab->bytes);
    put_cached_locked(slab);
    bool over = over_budget(slab, HK_POLICY(big_cache));
    hk_unlock(&big.lock);
    if (over)
        hold_to_budget();
}

void hk_big_keep(void *block, uint64_t until_ms)
{
    hk_lock(&big.lock);
    struct hk_slab *slab = retire_locked(block);
    if (HK_UNLIKELY(slab->altered)) {
        hk_unlock(&big.lock);
        unmap_altered(slab);
        return;
    }
    slab->idle_since = until_ms - hk_min(until_ms, HK_POLICY(purge_delay));
    big.totals.cached += slab->bytes;
    hk_list_push_front(&big.kept, &slab->link);
    hk_fitting_add(&sizes, slab);
    hk_unlock(&big.lock);
    HK_COUNT(big_kept, 1);
    hold_to_budget();
}

void hk_big_drop(void *block)
{
    hk_lock(&big.lock);
    struct hk_slab *slab = retire_locked(block);
    hk_unlock(&big.lock);
    HK_COUNT(big_dropped, 1);
    unmap_retired(slab);
}

static bool date_if_unseen(struct hk_slab *slab, uint64_t now_ms)
{
    bool unseen = slab->idle_since == UNSEEN;
    if (unseen)
        slab->idle_since = now_ms;
    return unseen;
}

/* The unseen are the newest. */
static void date_unseen(uint64_t now_ms)
{
    struct hk_link *cached = &big.cached.head, *spares = &big.spares.head;
    hk_lock(&big.lock);
    for (struct hk_link *link = cached->next; link != cached && date_if_unseen(of_link(link), now_ms);
         link = link->next)
        continue;
    for (struct hk_link *link = spares->next; link != spares && date_if_unseen(of_spare(link), now_ms);
         link = link->next)
        continue;
    hk_unlock(&big.lock);
}

static size_t cut_spares(uint64_t before)
{
    size_t bytes = 0;
    for (size_t cut; (cut = cut_oldest_spare(before)) > 0;)
        bytes += cut;
    return bytes;
}

/* What the cache has held no later than at this time is due. */
static uint64_t seen_before(uint64_t now_ms, uint64_t delay_ms)
{
    date_unseen(now_ms);
    return delay_ms == 0 ? UNSEEN : now_ms - hk_min(now_ms, delay_ms);
}

size_t hk_big_purge(uint64_t now_ms, uint64_t delay_ms)
{
    uint64_t before = seen_before(now_ms, delay_ms);
    return unmap_while(idle_before, before, SIZE_MAX) + cut_spares(before);
}

size_t hk_big_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough)
{
    uint64_t before = seen_before(now_ms, delay_ms);
    size_t bytes = unmap_while(idle_before, before, enough);
    for (size_t cut = 1; delay_ms == 0 && bytes < enough && cut > 0; bytes += cut)
        cut = cut_oldest_spare(before);
    return bytes;
}

/* Out of reach of the purge, and of who notes changes, while its mapping changes. False if it need not: it fits as it is. */
static bool seize_for_change(struct hk_slab *slab, size_t bytes)
{
    hk_lock(&big.lock);
    unset_asked_locked(slab);
    bool changes = !fits(slab, bytes, loosest(bytes));
    if (changes)
        hk_extents_remove(&big.extents, slab);
    else
        set_asked_locked(slab, bytes);
    hk_unlock(&big.lock);
    return changes;
}

static void settle_at(struct hk_slab *slab, size_t asked)
{
    hk_lock(&big.lock);
    index_locked(slab);
    set_asked_locked(slab, asked);
    hk_unlock(&big.lock);
}

static bool move(struct hk_slab *slab, size_t bytes)
{
    uintptr_t from = slab->start;
    void *to = map_suited(bytes, HK_PAGE);
    if (to == NULL)
        return false;
    hk_map_route_all(from, 1, 0);
    if (!hk_os.remap((void *)from, slab->bytes, bytes, to)) {
        /* `to` is left alone: the kernel may have unmapped it, and it may be somebody else's by now. */
        hk_map_route_all(from, 1, hk_route(HK_NOBODY, HK_CLASS_BIG));
        return false;
    }
    enter(slab, (uintptr_t)to, bytes);
    advise(slab);
    return true;
}

static bool remap_in_place(struct hk_slab *slab, size_t bytes)
{
    if (!hk_os.remap((void *)slab->start, slab->bytes, bytes, NULL))
        return false;
    enter(slab, slab->start, bytes);
    advise(slab);
    return true;
}

static bool lengthen(struct hk_slab *slab, size_t bytes)
{
    size_t whole = in_whole_huge_pages(bytes);
    if (!hk_held_allows(bytes - slab->bytes))
        return false;
    return remap_in_place(slab, whole) || (whole != bytes && remap_in_place(slab, bytes)) || move(slab, whole);
}

static void *resize(struct hk_slab *slab, size_t bytes)
{
    size_t asked = slab->asked;
    if (!seize_for_change(slab, bytes))
        return (void *)slab->start;
    bool done = bytes > slab->bytes ? lengthen(slab, bytes) : remap_in_place(slab, bytes);
    settle_at(slab, done ? bytes : asked);
    return done ? (void *)slab->start : NULL;
}

void *hk_big_resize(void *block, size_t size)
{
    if (size < HK_UNIT || size > PTRDIFF_MAX - HK_UNIT)
        return NULL;
    hk_lock(&big.lock);
    struct hk_slab *slab = checked_slab(HK_CALL_REALLOC, block);
    hk_unlock(&big.lock);
    return resize(slab, hk_align_up(size, HK_PAGE));
}

bool hk_big_holds(const void *p)
{
    hk_lock(&big.lock);
    const struct hk_slab *slab = hk_extents_below(&big.extents, (uintptr_t)p + 1);
    bool holds = slab != NULL && (uintptr_t)p - slab->start < slab->bytes;
    hk_unlock(&big.lock);
    return holds;
}

size_t hk_big_mapped(void) { return hk_load(hk_held.xbigs); }

void hk_big_total(struct hk_big_totals *totals)
{
    hk_lock(&big.lock);
    *totals = big.totals;
    hk_unlock(&big.lock);
}

