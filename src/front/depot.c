#include "front/depot.h"

#include <string.h>

#include "policy/options.h"
#include "span/meta.h"
#include "tiers/blocks.h"

enum { STASHES_PER_AGING = 64 }; /* some 100 microseconds at most */

bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n)
{
    struct hk_depot_shelf *shelf = &depot->shelves[class];
    size_t bytes = n * hk_classes[class].size;
    if (n > HK_STASH_BLOCKS || depot->bytes + bytes > hk_options.depot)
        return false;
    struct hk_stash *stash = hk_meta_alloc(sizeof *stash);
    if (stash == NULL)
        return false;
    memcpy(stash->blocks, blocks, n * sizeof(void *));
    stash->count = n;
    stash->next = shelf->newest;
    shelf->newest = stash;
    shelf->blocks += n;
    depot->bytes += bytes;
    depot->touched = true;
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
    const struct hk_stash *newest = depot->shelves[class].newest;
    if (newest == NULL || newest->count > room)
        return 0;
    struct hk_stash *stash = unlink_newest(depot, class);
    size_t n = stash->count;
    memcpy(blocks, stash->blocks, n * sizeof(void *));
    hk_meta_free(stash, sizeof *stash);
    depot->touched = true;
    return n;
}

static unsigned give_stashes(struct hk_depot *depot, struct hk_owner *owner, unsigned most)
{
    unsigned stashes = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        while (depot->shelves[class].newest != NULL && stashes < most) {
            struct hk_stash *stash = unlink_newest(depot, class);
            hk_blocks_give(owner, stash->blocks, (unsigned)stash->count);
            hk_meta_free(stash, sizeof *stash);
            stashes++;
        }
    }
    return stashes;
}

void hk_depot_age(struct hk_depot *depot, struct hk_owner *owner)
{
    if (!depot->touched && depot->bytes > 0)
        give_stashes(depot, owner, STASHES_PER_AGING);
    depot->touched = false;
}

void hk_depot_empty(struct hk_depot *depot, struct hk_owner *owner) { give_stashes(depot, owner, UINT32_MAX); }

size_t hk_depot_forget(struct hk_depot *depot)
{
    size_t blocks = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        blocks += depot->shelves[class].blocks;
    memset(depot, 0, sizeof *depot);
    return blocks;
}
