/* Adds up live samples by stack, and the free bytes that these samples pin in their slabs. */
#include "report/live_samples.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "prof/hooks.h"
#include "report/rss_stats.h"

/* One for each site, mapped for as long as a report is taken. */
struct table {
    struct hk_live_samples_line lines[HK_SAMPLE_SITES];
};

struct span_of_pages {
    uintptr_t first, last;
};

static struct hk_slab *slab_that_holds(uintptr_t block)
{
    uint32_t entry = hk_page_map_lookup(block);
    if (entry == 0 || hk_entry_class(entry) >= HK_CLASSES)
        return NULL;
    struct hk_slab *slab = hk_slab_at(block);
    return slab != NULL && block - slab->d.start < slab->d.bytes ? slab : NULL;
}

static bool is_resident(uintptr_t address)
{
    unsigned char resident = 0;
    size_t page = hk_system_page();
    return hk_os.resident((void *)hk_align_down(address, page), page, &resident) && (resident & 1) != 0;
}

/* The free bytes of the page, by the block's share of its taken ones. */
static uint64_t pinned_in(const struct hk_slab *slab, uintptr_t page, uintptr_t block, size_t size)
{
    struct hk_slab_page cut;
    if (!is_resident(page) || !hk_slab_page(slab, page, &cut) || cut.taken == 0)
        return 0;
    size_t overlap = hk_min(block + size, page + HK_PAGE) - hk_max(block, page);
    return cut.free * hk_min(overlap, cut.taken) / cut.taken;
}

/* Only the first and the last page of a block can hold others. */
static uint64_t pinned_by(uintptr_t block)
{
    const struct hk_slab *slab = slab_that_holds(block);
    if (slab == NULL)
        return 0;
    size_t size = slab->d.block_size;
    uintptr_t first = hk_align_down(block, HK_PAGE), last = hk_align_down(block + size - 1, HK_PAGE);
    uint64_t pinned = pinned_in(slab, first, block, size);
    return first == last ? pinned : pinned + pinned_in(slab, last, block, size);
}

static void add_sample(void *context, const struct hk_live_sample *sample)
{
    struct table *table = context;
    size_t size = hk_max(sample->size, 1);
    uint64_t weight = hk_countdown_weight(size, hk_hooks.mean);
    if (sample->number >= HK_SAMPLE_SITES || sample->site == NULL)
        return;
    struct hk_live_samples_line *line = &table->lines[sample->number];
    line->site = sample->site;
    line->sums.blocks += hk_max(weight / size, 1);
    line->sums.bytes += weight;
    line->sums.pinned += (uint64_t)((double)pinned_by((uintptr_t)sample->block) * (double)weight / (double)size);
}

static bool ranks_before(const void *line, const void *other)
{
    const struct hk_live_samples_line *one = line, *two = other;
    return one->sums.bytes + one->sums.pinned > two->sums.bytes + two->sums.pinned;
}

void hk_live_samples_take(struct hk_live_samples *live_samples)
{
    size_t bytes = hk_in_system_pages(sizeof(struct table));
    memset(live_samples, 0, sizeof *live_samples);
    struct table *table = hk_hooks.mean != 0 && !hk_hooks.watches ? hk_os.map(bytes) : NULL;
    if (table == NULL)
        return;
    live_samples->mean = hk_hooks.mean;
    hk_samples_visit(&hk_samples, add_sample, table);
    for (unsigned i = 0; i < HK_SAMPLE_SITES; i++) {
        const struct hk_live_samples_line *line = &table->lines[i];
        if (line->site == NULL)
            continue;
        live_samples->all.blocks += line->sums.blocks;
        live_samples->all.bytes += line->sums.bytes;
        live_samples->all.pinned += line->sums.pinned;
        live_samples->shown = hk_top_insert(live_samples->stacks, sizeof *line, live_samples->shown, HK_REPORT_STACKS,
                                            line, ranks_before);
    }
    hk_os.unmap(table, bytes);
}
