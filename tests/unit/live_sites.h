/* Live sites: adds up the live blocks and bytes of all call sites, as the samples estimate them. */
#ifndef TEST_UNIT_LIVE_SITES_H
#define TEST_UNIT_LIVE_SITES_H

#include "prof/hooks.h"

struct live {
    int64_t blocks, bytes;
};

static inline void add_live_site(void *context, const struct hk_site *site, unsigned number)
{
    (void)number;
    struct live *live = context;
    live->blocks += hk_load(site->xlive_blocks);
    live->bytes += hk_load(site->xlive_bytes);
}

static inline struct live live_now(void)
{
    struct live live = {0, 0};
    hk_sites_visit(&hk_samples, add_live_site, &live);
    return live;
}

#endif
