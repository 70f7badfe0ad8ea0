#include "report/holders.h"

#include "base/bits.h"
#include "policy/classes.h"
#include "tcache/bins.h"
#include "tcache/tcache.h"

static struct hk_holder holder_of(const struct hk_tcache *cache)
{
    struct hk_holder row = {.thread = (int)cache->system_thread};
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_bin *bin = &cache->hot.bins[class];
        row.served += bin->served;
        row.in_bins += hk_bin_items(bin) * hk_classes[class].size;
        row.in_depots += cache->depot.classes[class].blocks * hk_classes[class].size;
    }
    return row;
}

static size_t bytes_of(const struct hk_holder *row) { return row->in_bins + row->in_depots; }

static unsigned insert_holder(struct hk_holder *holders, unsigned count, const struct hk_holder *row)
{
    unsigned at = count;
    for (; at > 0 && bytes_of(row) > bytes_of(&holders[at - 1]); at--)
        if (at < HK_REPORT_HOLDERS)
            holders[at] = holders[at - 1];
    if (at < HK_REPORT_HOLDERS)
        holders[at] = *row;
    return (unsigned)hk_min(count + 1, HK_REPORT_HOLDERS);
}

unsigned hk_holders_take(struct hk_holder holders[HK_REPORT_HOLDERS])
{
    unsigned count = 0;
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        const struct hk_tcache *cache = hk_tcache_by_id(id);
        if (!cache->alive || cache->system_thread == 0)
            continue;
        struct hk_holder row = holder_of(cache);
        count = insert_holder(holders, count, &row);
    }
    return count;
}
