#include "report/census.h"

#include <string.h>

#include "base/bits.h"
#include "front/bins.h"
#include "front/cache.h"
#include "span/meta.h"
#include "span/runs.h"
#include "tiers/bigcache.h"

static void count_slabs(struct hk_census *census)
{
    uint32_t count = hk_load(hk_slab_table.xcount);
    for (uint32_t number = 0; number < count; number++) {
        const struct hk_slab *slab = &hk_slab_table.base[number];
        uintptr_t start = slab->start;
        unsigned number_of_class = slab->class;
        if (start == 0 || number_of_class >= HK_CLASSES)
            continue;
        struct hk_class_census *class = &census->classes[number_of_class];
        size_t cut = (size_t)slab->blocks * slab->block_size;
        size_t free = (size_t)slab->free * slab->block_size;
        class->slabs++;
        class->tails += slab->bytes - cut;
        class->free_in_slabs += free;
        class->live += cut - free;
    }
}

static void count_cache(struct hk_census *census, struct hk_cache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_bin *bin = &cache->front.bins[class];
        struct hk_class_census *row = &census->classes[class];
        size_t size = hk_classes[class].size;
        row->served += bin->served;
        if (!cache->alive)
            continue;
        row->in_bins += (hk_bin_items(bin) + cache->depot.shelves[class].blocks) * size;
    }
    for (unsigned slot = 0; slot < HK_OUTBOX_SLOTS; slot++) {
        const struct hk_parcel *parcel = cache->outbox.slots[slot].parcel;
        if (parcel != NULL)
            census->classes[parcel->class].remote += (size_t)parcel->count * hk_classes[parcel->class].size;
    }
    census->threads += cache->alive;
}

static void count_remote(struct hk_census *census)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        int64_t blocks = hk_load(hk_remote_blocks[class]);
        census->classes[class].remote += blocks > 0 ? (size_t)blocks * hk_classes[class].size : 0;
    }
}

static void add_class(struct hk_class_census *sum, struct hk_class_census *row, size_t size)
{
    size_t not_live = row->in_bins + row->remote;
    row->live -= hk_min(row->live, not_live);
    row->live_blocks = row->live / size;
    sum->slabs += row->slabs;
    sum->served += row->served;
    sum->live_blocks += row->live_blocks;
    sum->live += row->live;
    sum->in_bins += row->in_bins;
    sum->remote += row->remote;
    sum->free_in_slabs += row->free_in_slabs;
    sum->tails += row->tails;
}

static void count_stats(struct hk_census *census)
{
    for (unsigned i = 0; i < HK_STAT_ROWS; i++) {
        const struct hk_stat_row *row = &hk_stat_rows[i];
        if (!row->per_thread) {
            census->counts[i] = hk_load(hk_global_counts[row->index]);
            continue;
        }
        for (uint32_t id = HK_FIRST_OWNER; id < hk_owner_end(); id++)
            census->counts[i] += hk_load(hk_owner_by_id(id)->counts.xvalue[row->index]);
    }
}

static uint64_t count_named(const struct hk_census *census, const char *name)
{
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        if (strcmp(hk_stat_rows[i].name, name) == 0)
            return census->counts[i];
    return 0;
}

static void count_rest(struct hk_census *census)
{
    struct hk_runs_totals units;
    struct hk_big_totals bigs;
    hk_runs_total(&units);
    hk_big_total(&bigs);
    size_t arrays = hk_map_committed() + hk_slabs_committed() + hk_owners_committed();
    size_t chunks = hk_meta_mapped();
    census->idle_dirty = units.free_dirty;
    census->idle_clean = units.free_clean;
    census->big_live = bigs.live;
    census->big_cached = bigs.cached;
    census->big_blocks = bigs.blocks;
    census->metadata = arrays + chunks - hk_meta_unused();
    census->metadata_spare = arrays + chunks - census->metadata;
    census->mapped = units.mapped + bigs.live + bigs.cached + arrays + chunks;
}

void hk_census_take(struct hk_census *census)
{
    memset(census, 0, sizeof *census);
    count_slabs(census);
    for (uint32_t id = HK_FIRST_OWNER; id < hk_owner_end(); id++)
        count_cache(census, hk_cache_by_id(id));
    count_remote(census);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        add_class(&census->sum, &census->classes[class], hk_classes[class].size);
    count_stats(census);
    count_rest(census);
    census->mallocs = census->sum.served + count_named(census, "big_calls") + count_named(census, "orphan_calls");
    census->frees = census->mallocs - hk_min(census->mallocs, census->sum.live_blocks + census->big_blocks);
}

void hk_census_parts(const struct hk_census *census, struct hk_part parts[HK_PARTS])
{
    const struct hk_part all[HK_PARTS] = {
        {"live", "blocks of up to 1 MiB with the program", census->sum.live},
        {"big_live", "blocks of more than 1 MiB with the program", census->big_live},
        {"thread_caches", "free blocks ready in threads' bins", census->sum.in_bins},
        {"remote_pending", "freed by another thread, on their way back", census->sum.remote},
        {"free_in_slabs", "free blocks in slabs that are partly used", census->sum.free_in_slabs},
        {"slab_tails", "ends of slabs, too short for a block", census->sum.tails},
        {"big_cached", "freed big blocks, kept for reuse", census->big_cached},
        {"idle", "free memory, warm or given back to the system", census->idle_dirty + census->idle_clean},
        {"metadata", "HAKMEM's own tables", census->metadata},
        {"metadata_spare", "committed for tables, not used yet", census->metadata_spare},
    };
    memcpy(parts, all, sizeof all);
}
