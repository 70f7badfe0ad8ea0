#include "front/depot.h"

#include <string.h>

#include "base/bits.h"
#include "front/bins.h"
#include "policy/policy.h"
#include "span/meta.h"

enum {
    STASHES_PER_AGING = 64, /* some 100 microseconds at most */
    MOST_SPARES = 16,
    LOOSEST = 4, /* times the bytes of the blocks */
    SAMPLE_STEP = 8,
};

static struct hk_stash *empty_stash(struct hk_depot *depot)
{
    struct hk_stash *stash = depot->spare;
    if (stash == NULL)
        return hk_meta_alloc(sizeof *stash);
    depot->spare = stash->next;
    depot->spares--;
    return stash;
}

static void drop_stash(struct hk_depot *depot, struct hk_stash *stash)
{
    if (depot->spares == MOST_SPARES) {
        hk_meta_free(stash, sizeof *stash);
        return;
    }
    stash->next = depot->spare;
    depot->spare = stash;
    depot->spares++;
}

static void free_spares(struct hk_depot *depot, unsigned most)
{
    for (; most > 0 && depot->spares > 0; most--)
        hk_meta_free(empty_stash(depot), sizeof(struct hk_stash));
}

/* Blocks that lie together, as a burst leaves them that is freed in the order it came. Others are better sorted by the bitmaps:
 * handed out again as they are, they would spread what the program builds next over the whole heap. */
static bool lie_together(void *const *blocks, size_t n, size_t bytes)
{
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    for (size_t i = 0; i < n; i += SAMPLE_STEP) {
        lowest = hk_min(lowest, (uintptr_t)blocks[i]);
        highest = hk_max(highest, (uintptr_t)blocks[i]);
    }
    return highest - lowest <= LOOSEST * bytes;
}

bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n)
{
    struct hk_depot_shelf *shelf = &depot->shelves[class];
    size_t bytes = n * hk_classes[class].size;
    if (n > HK_STASH_BLOCKS || depot->bytes + bytes > HK_POLICY(depot) || !lie_together(blocks, n, bytes))
        return false;
    struct hk_stash *stash = empty_stash(depot);
    if (stash == NULL)
        return false;
    memcpy(stash->blocks, blocks, n * sizeof(void *));
    stash->count = n;
    stash->next = shelf->newest;
    shelf->newest = stash;
    shelf->blocks += n;
    depot->bytes += bytes;
    return true;
}

static struct hk_stash *unlink_newest(struct hk_depot *depot, unsigned class)
{
    struct hk_depot_shelf *shelf = &depot->shelves[class];
    struct hk_stash *stash = shelf->newest;
    shelf->newest = stash->next;
    shelf->blocks -= stash->count;
    depot->bytes -= stash->count * hk_classes[class].size;
    return stash;
}

size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room)
{
    struct hk_depot_shelf *shelf = &depot->shelves[class];
    if (shelf->newest == NULL || shelf->newest->count > room)
        return 0;
    struct hk_stash *stash = unlink_newest(depot, class);
    size_t n = stash->count;
    memcpy(blocks, stash->blocks, n * sizeof(void *));
    drop_stash(depot, stash);
    shelf->drawn_on = true;
    return n;
}

/* How many stashes it gave. */
static unsigned give_stashes(struct hk_cache *cache, unsigned class, unsigned most)
{
    struct hk_depot *depot = &cache->depot;
    unsigned stashes = 0;
    for (; depot->shelves[class].newest != NULL && stashes < most; stashes++) {
        struct hk_stash *stash = unlink_newest(depot, class);
        hk_give_back(cache, stash->blocks, (unsigned)stash->count);
        drop_stash(depot, stash);
    }
    return stashes;
}

static unsigned fullest_but(const struct hk_depot *depot, unsigned class)
{
    unsigned fullest = class;
    size_t most = 0;
    for (unsigned other = 0; other < HK_CLASSES; other++) {
        size_t bytes = depot->shelves[other].blocks * hk_classes[other].size;
        if (other != class && bytes > most) {
            fullest = other;
            most = bytes;
        }
    }
    return fullest;
}

void hk_depot_pay(struct hk_cache *cache, unsigned class, size_t bytes)
{
    struct hk_depot *depot = &cache->depot;
    size_t most = depot->bytes - hk_min(depot->bytes, bytes);
    unsigned from = fullest_but(depot, class);
    while (depot->bytes > most && give_stashes(cache, from, 1) > 0)
        continue;
}

void hk_depot_age(struct hk_cache *cache)
{
    struct hk_depot *depot = &cache->depot;
    unsigned left = STASHES_PER_AGING;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        if (!depot->shelves[class].drawn_on)
            left -= give_stashes(cache, class, left);
        depot->shelves[class].drawn_on = false;
    }
    free_spares(depot, 1);
}

void hk_depot_empty(struct hk_cache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES && cache->depot.bytes > 0; class ++)
        give_stashes(cache, class, UINT32_MAX);
    free_spares(&cache->depot, UINT32_MAX);
}

size_t hk_depot_forget(struct hk_depot *depot)
{
    size_t blocks = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        blocks += depot->shelves[class].blocks;
    memset(depot, 0, sizeof *depot);
    return blocks;
}
