/* Adds up the memory of slabs, caches, large blocks and metadata, for each class and for each part of the heap. */
#include "report/heap_stats.h"
#include "guard/sampled_slots.h"
#include "prof/attach_sampling.h"
#include "slab/joined_blocks.h"
#include "span/meta.h"
#include "span/page_heap.h"
#include "tcache/tcache.h"

const struct hk_row hk_class_stat_rows[HK_CLASS_STATS] = {
#define HK_CLASS_STAT(name, kind, unit, meaning, high)                                                                 \
    {#name, meaning, #kind, #unit, 0, offsetof(struct hk_class_stats, name)},
#include "report/class_stats.def"
};

const struct hk_part_row hk_part_rows[HK_PARTS] = {
#define HK_PART(name, meaning, high) {#name, meaning},
#include "report/parts.def"
};

const struct hk_row hk_heap_figure_rows[HK_HEAP_FIGURES] = {
#define HK_HEAP_FIGURE(name, field, kind, unit, width, meaning)                                                        \
    {#name, meaning, #kind, #unit, width, offsetof(struct hk_heap_figures, field)},
#include "report/heap_figures.def"
};

/* Moves the bytes of each joined block (slab/joined_blocks.h) from the class of its slab to the class that fits the joined block. */
static void count_joined(struct hk_heap_stats *heap_stats, const struct hk_slab *slab)
{
    struct hk_class_stats *host = &heap_stats->classes[slab->d.class];
    for (unsigned at = 0, cells; (at = hk_joined_next(slab, at, &cells)) < slab->d.blocks; at += cells) {
        size_t bytes = (size_t)cells * slab->d.block_size;
        unsigned class = hk_class_that_fits(bytes);
        size_t size = hk_classes[class].size;
        const _Atomic uint64_t *bits = slab->xremote; /* is NULL after another thread has released the slab */
        bool remote = bits != NULL && at / 64 < slab->words && (hk_load(bits[at / 64]) >> at % 64 & 1) != 0;
        host->live -= hk_min(host->live, bytes);
        host->remote -= remote ? slab->d.block_size : 0;
        heap_stats->classes[class].live += size;
        heap_stats->classes[class].remote += remote ? size : 0;
        heap_stats->classes[class].tails += bytes - size;
    }
}

/* Counts a slab. Here all blocks that are not free in the slab count as live. Later, sum_up() subtracts the blocks in bins and the remote frees. */
static void count_slab(struct hk_descriptor *descriptor, void *context)
{
    struct hk_heap_stats *heap_stats = context;
    const struct hk_slab *slab = hk_slab_of(descriptor);
    unsigned number_of_class = descriptor->class; /* loaded once, because another thread may release the slab */
    if (slab == NULL || number_of_class >= HK_CLASSES)
        return;
    struct hk_class_stats *class = &heap_stats->classes[number_of_class];
    size_t size = slab->d.block_size, cut = slab->d.blocks * size, free = slab->free * size;
    class->slabs++;
    class->tails += slab->d.bytes - cut;
    class->free_in_slabs += free;
    class->live += cut - free;
    class->remote += (uint64_t)(int64_t)hk_remote_blocks(slab) * size;
    if (slab->joined != 0 && hk_load(slab->xjoined) != NULL)
        count_joined(heap_stats, slab);
}

static void count_cache(struct hk_heap_stats *heap_stats, struct hk_tcache *cache)
{
    struct hk_thread_line line = {.thread = (int)cache->system_thread};
    int64_t unsent[HK_CLASSES] = {0};
    if (!cache->alive)
        return;
    hk_outbox_count(&cache->outbox, unsent);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_bin *bin = &cache->hot.bins[class];
        struct hk_class_stats *row = &heap_stats->classes[class];
        size_t in_depots = cache->depot.classes[class].blocks * hk_classes[class].size;
        size_t in_bins = hk_bin_blocks(cache, class) * hk_classes[class].size + in_depots;
        row->bins_hot += hk_bin_is_hot(bin, class);
        row->bins_warm += hk_bin_capacity(bin) > 0 && !hk_bin_is_hot(bin, class);
        row->in_bins += in_bins;
        row->in_depots += in_depots;
        row->remote += (uint64_t)unsent[class]; /* no slab counts these blocks yet; a slab's count may be below 0 */
        line.served += bin->served;
        line.in_bins += in_bins;
        line.in_depots += in_depots;
    }
    if (line.thread != 0)
        hk_top_insert(heap_stats->thread_lines, sizeof line, &heap_stats->thread_lines_shown, HK_REPORT_THREADS, &line,
                      &line.in_bins, 1);
}

/* Sums up the classes. Hits do not record the requested size, so the bytes that rounding adds to live blocks are estimated from the misses. */
static void sum_up(struct hk_heap_stats *heap_stats)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_class_stats *row = &heap_stats->classes[class];
        size_t size = hk_classes[class].size;
        row->live -= hk_min(row->live, row->in_bins);
        row->remote = hk_min(hk_positive_part((int64_t)row->remote), row->live);
        row->live -= row->remote;
        row->live_blocks = row->live / size;
        row->served = hk_tcaches_served(class);
        uint64_t *refills = (uint64_t *)row + offsetof(struct hk_class_stats, refills_depot) / sizeof(uint64_t);
        for (enum hk_source i = 0; i < HK_SOURCES; i++)
            row->misses += refills[i] = hk_tcaches_refilled(class, i);
        if (row->misses != 0) {
            uint64_t added = row->misses * size - hk_min(hk_tcaches_requested(class), row->misses * size);
            row->rounding =
                row->live_blocks * (added / row->misses) + row->live_blocks * (added % row->misses) / row->misses;
        }
        row->live -= row->rounding;
        for (unsigned i = 0; i < HK_CLASS_STATS; i++) {
            ((uint64_t *)&heap_stats->tiers[hk_classes[class].tier])[i] += ((uint64_t *)row)[i];
            ((uint64_t *)&heap_stats->sum)[i] += ((uint64_t *)row)[i];
        }
    }
}

static void count_large_and_slices(struct hk_heap_stats *heap_stats)
{
    struct hk_large_totals large = hk_large_total();
    struct hk_page_heap_totals slices = hk_page_heap_total();
    struct hk_class_stats *row = &heap_stats->tiers[HK_TIER_LARGE];
    row->served = heap_stats->counts[HK_STAT_large_calls];
    row->misses = row->refills_new = hk_min(row->served, heap_stats->counts[HK_STAT_large_mapped]);
    row->live_blocks = large.blocks;
    row->live = heap_stats->parts[HK_PART_large_live] = large.live;
    heap_stats->parts[HK_PART_large_cached] = large.cached;
    heap_stats->idle_dirty = slices.free_dirty;
    heap_stats->idle_clean = slices.free_clean;
    heap_stats->parts[HK_PART_idle] = slices.free_dirty + slices.free_clean;
    heap_stats->mapped = slices.mapped + large.live + large.cached;
}

/* Counts the user heaps. The part `heaps` contains only their slabs, because their large blocks count as large_live. The heap of attach sampling
 * (prof/attach_sampling.h) is not in the list, because its blocks are blocks of malloc. */
static void count_heaps(struct hk_heap_stats *heap_stats)
{
    for (uint32_t index = 0; index < hk_heaps_end(); index++) {
        struct hk_heap_figures line;
        bool open = hk_heaps_figures(hk_heap_by_index(index), &line);
        heap_stats->parts[HK_PART_heaps] += line.physical - hk_min(line.physical, line.large);
        heap_stats->other_blocks += line.live_blocks - line.large_blocks;
        heap_stats->mallocs += line.earlier + line.mallocs;
        if (hk_heap_by_index(index) == hk_load_acquire(hk_attach_sampling.xheap))
            continue;
        heap_stats->heaps += open;
        if (open)
            hk_top_insert(heap_stats->heap_lines, sizeof line, &heap_stats->heap_lines_shown, HK_REPORT_HEAPS, &line,
                          &line.physical, 1);
    }
}

void hk_parts_add_class(size_t parts[HK_PARTS], const struct hk_class_stats *class_stats)
{
    parts[HK_PART_live] += class_stats->live;
    parts[HK_PART_rounding] += class_stats->rounding;
    parts[HK_PART_thread_caches] += class_stats->in_bins;
    parts[HK_PART_remote_pending] += class_stats->remote;
    parts[HK_PART_free_in_slabs] += class_stats->free_in_slabs;
    parts[HK_PART_slab_tails] += class_stats->tails;
}

void hk_heap_stats_take(struct hk_heap_stats *heap_stats)
{
    memset(heap_stats, 0, sizeof *heap_stats);
    hk_descriptors_visit(count_slab, heap_stats);
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1))
        count_cache(heap_stats, hk_tcache_by_id(id));
    heap_stats->threads = hk_tcaches_alive();
    sum_up(heap_stats);
    hk_parts_add_class(heap_stats->parts, &heap_stats->sum);
    for (enum hk_stat i = 0; i < HK_STAT_ROWS; i++)
        heap_stats->counts[i] = i < HK_THREAD_STATS ? hk_tcaches_counted(i) : hk_load(hk_global_counts[i]);
    count_large_and_slices(heap_stats);
    size_t tables = hk_page_map_tables() + hk_meta_mapped() + hk_load_acquire(hk_slot_range.xbytes);
    heap_stats->parts[HK_PART_metadata_spare] = hk_meta_unused();
    heap_stats->parts[HK_PART_metadata] = tables - heap_stats->parts[HK_PART_metadata_spare];
    heap_stats->mapped += tables;
    heap_stats->other_blocks = hk_slots_live();
    count_heaps(heap_stats);
    const struct hk_class_stats *large = &heap_stats->tiers[HK_TIER_LARGE];
    heap_stats->mallocs += heap_stats->sum.served + large->served + heap_stats->counts[HK_STAT_cacheless_calls] +
                           heap_stats->counts[HK_STAT_guard_samples];
    uint64_t live = heap_stats->sum.live_blocks + large->live_blocks + heap_stats->other_blocks;
    heap_stats->counted = hk_gate_counts_all();
    /* The number of hits that were not counted is at least this, because all live blocks were allocated. */
    static _Atomic uint64_t xhits;
    hk_store(xhits, hk_max(hk_load(xhits), hk_positive_part((int64_t)(live - heap_stats->mallocs))));
    heap_stats->mallocs += hk_load(xhits);
    heap_stats->frees = hk_positive_part((int64_t)(heap_stats->mallocs - live));
}
