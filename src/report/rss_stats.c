/* Adds up the resident pages of each part of HAKMEM's memory, the live samples of each stack, and the free bytes that sampled blocks pin in slabs. */
#include "report/heap_stats.h"
#include "guard/sampled_slots.h"
#include "os/maps.h"
#include "span/meta.h"
#include "span/page_heap.h"
#include "prof/hooks.h"

enum { PAGES_AT_ONCE = 512, SUMS = sizeof(struct hk_resident_sums) / sizeof(size_t) };

/* Says whether the last checked page of the page map is resident. The walk skips absent pages (all 0), because a read would make them resident. */
struct glance {
    uintptr_t page;
    bool resident;
};

struct walk {
    struct hk_rss_stats *rss_stats;
    struct hk_resident_sums *here;      /* sums of the current mapping */
    const struct hk_large_block *large; /* the last large block found; kept because only its first slice has an entry */
    uintptr_t large_end;
    struct glance chunks, entries;
};

/* A stretch is a range of memory. Its pages count for `sum`, or for several sums if they belong to a slab. */
struct stretch {
    uintptr_t start, end;
    size_t *sum;
    const struct hk_slab *slab;
};

struct slab_page {
    unsigned class;
    size_t taken, free, tail; /* bytes */
};

/* Divides a page of a slab into taken, free and tail bytes. Returns false if the fields do not fit together, because the owner may release the slab
 * during the walk, and another slab may take its place. Reads no bit beyond a bitmap's end. The bitmap of a released slab stays mapped. */
static bool divide_page(const struct hk_slab *slab, uintptr_t page, struct slab_page *cut)
{
    unsigned class = slab->d.class < HK_CLASSES ? slab->d.class : 0;
    size_t size = hk_classes[class].size, blocks = slab->d.blocks, free = 0;
    /* The bitmap's address is loaded before the checks, which tell whether the bitmap belongs to this slab. */
    const uint64_t *freebits = __atomic_load_n(&slab->freebits, __ATOMIC_ACQUIRE);
    size_t from = page - slab->d.start, end = hk_min(from + HK_PAGE, blocks * size);
    size_t most = freebits == slab->own_bits ? sizeof slab->own_bits * 8 : hk_classes[class].slab_bytes / size;
    if (freebits == NULL || from >= slab->d.bytes || slab->d.class != class || blocks > most)
        return false;
    for (size_t block = from / size; block * size < end; block++)
        if ((freebits[block / 64] >> (block % 64) & 1) != 0)
            free += hk_min((block + 1) * size, end) - hk_max(block * size, from);
    size_t blocks_here = end > from ? end - from : 0;
    *cut = (struct slab_page){class, blocks_here - free, free, HK_PAGE - blocks_here};
    return true;
}

/* Adds the resident pages of a stretch to their sums. Divides a system page into units of HK_PAGE, because the page may belong to several slabs. */
static void divide(struct walk *walk, const struct stretch *stretch)
{
    unsigned char pages[PAGES_AT_ONCE];
    struct hk_resident_sums *here = walk->here;
    struct slab_page cut;
    size_t whole = hk_system_page();
    for (uintptr_t at = stretch->start; at < stretch->end; at += sizeof pages * whole) {
        size_t bytes = hk_min(stretch->end - at, sizeof pages * whole);
        if (!hk_os.resident((void *)at, bytes, pages))
            continue;
        for (size_t place = 0; place < bytes; place += HK_PAGE) {
            if ((pages[place / whole] & 1) == 0)
                continue;
            if (stretch->slab == NULL)
                *stretch->sum += HK_PAGE;
            else if (divide_page(stretch->slab, at + place, &cut)) {
                *(cut.taken != 0 ? &here->pinned[cut.class] : &here->loose[cut.class]) += cut.free;
                here->tails[cut.class] += cut.tail;
                here->taken[cut.class] += cut.taken;
            }
        }
    }
}

static bool is_resident(uintptr_t address)
{
    unsigned char resident = 0;
    size_t page = hk_system_page();
    return hk_os.resident((void *)hk_align_down(address, page), page, &resident) && (resident & 1) != 0;
}

static bool holds_page(struct glance *glance, const volatile void *word)
{
    uintptr_t page = hk_align_down((uintptr_t)word, hk_system_page());
    if (page != glance->page)
        *glance = (struct glance){page, is_resident(page)};
    return glance->resident;
}

/* Finds the stretch at an address in walk->large. A block has up to two stretches: the program's part, and the slack after it. */
static bool in_large(const struct walk *walk, uintptr_t at, struct stretch *found)
{
    if (at >= walk->large_end || at < walk->large->d.start)
        return false;
    size_t held = hk_link_linked(&walk->large->link) ? 0 : hk_in_system_pages(hk_large_held(walk->large));
    uintptr_t slack = hk_min(walk->large->d.start + held, walk->large_end);
    bool live = at < slack;
    *found = (struct stretch){.start = at, .end = live ? slack : walk->large_end};
    found->sum = &walk->here->parts[live ? HK_PART_large_live : HK_PART_large_cached];
    return true;
}

static bool slice_at(struct walk *walk, uintptr_t at, struct stretch *found)
{
    enum hk_slice_use slice =
        holds_page(&walk->chunks, hk_page_map_chunk(at)) ? hk_page_heap_slice(at) : HK_SLICE_FOREIGN;
    if (slice == HK_SLICE_FOREIGN) { /* a large block may begin in the slice */
        uint32_t entry = holds_page(&walk->entries, hk_page_map_entry(at)) ? hk_page_map_lookup(at) : 0;
        if (entry == 0 || hk_entry_class(entry) != HK_CLASS_LARGE)
            return false;
        walk->large = hk_large_at(at);
        walk->large_end = walk->large->d.start + walk->large->d.bytes;
        return in_large(walk, hk_max(at, walk->large->d.start), found);
    }
    size_t *idle = slice == HK_SLICE_FREE_HUGE ? &walk->here->idle_huge : &walk->here->parts[HK_PART_idle];
    *found = (struct stretch){.start = at, .end = hk_align_down(at, HK_SLICE) + HK_SLICE, .sum = idle};
    const struct hk_slab *slab = slice == HK_SLICE_USED ? hk_slab_at(at) : NULL;
    if (slab != NULL && at - slab->d.start < slab->d.bytes) {
        found->slab = slab->d.class < HK_CLASSES ? slab : NULL;
        found->sum = &walk->here->parts[HK_PART_heaps];
    }
    return true;
}

static bool next_in_heap(struct walk *walk, uintptr_t from, uintptr_t to, struct stretch *found)
{
    for (uintptr_t at = from; at < to;) {
        if (in_large(walk, at, found))
            return true;
        uintptr_t known = hk_page_map_next_covered(at);
        if (known == at && slice_at(walk, at, found))
            return found->start < to;
        at = known == at ? hk_align_down(at, HK_SLICE) + HK_SLICE : known;
    }
    return false;
}

/* Finds the first stretch of HAKMEM's memory in [from, to). Returns false if there is none. */
static bool next_own(struct walk *walk, uintptr_t from, uintptr_t to, struct stretch *own)
{
    size_t bytes_of_slots = hk_load_acquire(hk_slot_range.xbytes);
    uintptr_t first_slot = hk_load(hk_slot_range.xstart);
    struct hk_range table = hk_page_map_next_table(from, to), area = hk_meta_next(from, to);
    struct stretch heap;
    hk_range_keep_lowest(&table, from, to, first_slot, first_slot + bytes_of_slots);
    *own = (struct stretch){.start = table.start, .end = table.end, .sum = &walk->here->parts[HK_PART_metadata]};
    if (area.start < table.start)
        *own = (struct stretch){.start = area.start, .end = area.end, .sum = &walk->here->areas};
    if (next_in_heap(walk, from, own->start, &heap))
        *own = heap;
    own->end = hk_min(own->end, to);
    return own->start < own->end;
}

static size_t share(size_t bytes, uint64_t weight, uint64_t of)
{
    return of == 0 ? 0 : (size_t)((double)bytes * (double)weight / (double)of);
}

static void divide_mapping(void *context, const struct hk_mapping *mapping)
{
    struct walk *walk = context;
    uintptr_t at = mapping->start;
    if (mapping->resident == 0)
        return;
    walk->rss_stats->total += mapping->resident;
    memset(walk->here, 0, sizeof *walk->here);
    for (struct stretch own; next_own(walk, at, mapping->end, &own); at = own.end) {
        divide(walk, &(struct stretch){.start = at, .end = own.start, .sum = &walk->here->rest});
        divide(walk, &own);
    }
    if (at == mapping->start)
        *(mapping->inode != 0 ? &walk->here->rest_files : &walk->here->rest) = mapping->resident;
    else
        divide(walk, &(struct stretch){.start = at, .end = mapping->end, .sum = &walk->here->rest});
    /* The kernel's figure may be less than the sum of the resident pages, because the kernel leaves out pages that were read but never written. In
     * this case, the figure is divided in proportion to the sums. The largest sum also gets the remainder of the divisions. */
    const size_t *here = (const size_t *)walk->here;
    size_t *all = (size_t *)&walk->rss_stats->all, present = 0, divided = 0;
    unsigned largest = 0;
    for (unsigned i = 0; i < SUMS; i++) {
        present += here[i];
        largest = here[i] > here[largest] ? i : largest;
    }
    for (unsigned i = 0; i < SUMS; i++) {
        size_t bytes = present > mapping->resident ? share(here[i], mapping->resident, present) : here[i];
        all[i] += bytes;
        divided += bytes;
    }
    if (present > mapping->resident)
        all[largest] += mapping->resident - hk_min(divided, mapping->resident);
}

/* Computes how many resident bytes of each class are in live blocks, in bins, and in remote frees, and how many are rounding. The resident bytes of
 * all these blocks are known only as a sum. The function divides the sum as if the same share of each kind were resident. */
void hk_rss_stats_take(struct hk_rss_stats *rss_stats, const struct hk_heap_stats *heap_stats)
{
    struct hk_resident_sums *all = &rss_stats->all;
    struct walk walk = {.rss_stats = rss_stats, .here = &rss_stats->here};
    memset(rss_stats, 0, sizeof *rss_stats);
    hk_smaps_visit(divide_mapping, &walk);
    all->parts[HK_PART_idle] += all->idle_huge;
    rss_stats->rest_of_process = all->rest_files + all->rest;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_stats *row = &heap_stats->classes[class];
        struct hk_class_stats *resident = &rss_stats->classes[class];
        size_t taken = all->taken[class];
        uint64_t whole = row->live + row->rounding + row->in_bins + row->remote;
        resident->rounding = share(taken, row->rounding, whole);
        resident->in_bins = share(taken, row->in_bins, whole);
        resident->remote = share(taken, row->remote, whole);
        resident->live = taken - hk_min(taken, resident->rounding + resident->in_bins + resident->remote);
        resident->free_in_slabs = all->pinned[class] + all->loose[class];
        resident->tails = all->tails[class];
        hk_parts_add_class(all->parts, resident);
    }
    size_t spare = hk_meta_spare(), in_use = hk_meta_mapped() - hk_meta_unused();
    spare = share(all->areas, spare, spare + in_use);
    all->parts[HK_PART_metadata_spare] += spare;
    all->parts[HK_PART_metadata] += all->areas - hk_min(all->areas, spare);
}

/* Returns how many free bytes a block pins on its first and its last page, in proportion to its bytes on them. Pages between hold no other block. */
static uint64_t pinned_by(uintptr_t block)
{
    uint32_t entry = hk_page_map_lookup(block);
    const struct hk_slab *slab = entry != 0 && hk_entry_class(entry) < HK_CLASSES ? hk_slab_at(block) : NULL;
    if (slab == NULL || block - slab->d.start >= slab->d.bytes)
        return 0;
    uint64_t pinned = 0;
    uintptr_t end = block + slab->d.block_size;
    uintptr_t pages[] = {hk_align_down(block, HK_PAGE), hk_align_down(end - 1, HK_PAGE)};
    for (unsigned i = pages[0] == pages[1]; i < 2; i++) {
        struct slab_page cut;
        if (!is_resident(pages[i]) || !divide_page(slab, pages[i], &cut) || cut.taken == 0)
            continue;
        size_t overlap = hk_min(end, pages[i] + HK_PAGE) - hk_max(block, pages[i]);
        pinned += cut.free * hk_min(overlap, cut.taken) / cut.taken;
    }
    return pinned;
}

static void add_sample(void *context, const struct hk_live_sample *sample)
{
    if (sample->number >= HK_SAMPLE_SITES || sample->site == NULL)
        return;
    struct hk_live_samples_line *line = (struct hk_live_samples_line *)context + sample->number;
    size_t size = hk_max(sample->size, 1);
    uint64_t weight = hk_countdown_weight(size, hk_hooks.mean);
    line->site = sample->site;
    line->blocks += hk_max(weight / size, 1);
    line->bytes += weight;
    line->pinned += (uint64_t)((double)pinned_by((uintptr_t)sample->block) * (double)weight / (double)size);
}

/* Keeps the sums of each site in a temporary mapping, because they are too large for the stack. */
void hk_live_samples_take(struct hk_live_samples *live_samples)
{
    size_t bytes = hk_in_system_pages(HK_SAMPLE_SITES * sizeof(struct hk_live_samples_line));
    memset(live_samples, 0, sizeof *live_samples);
    struct hk_live_samples_line *lines = hk_hooks.mean != 0 && !hk_hooks.watches ? hk_os.map(bytes) : NULL;
    if (lines == NULL)
        return;
    live_samples->mean = hk_hooks.mean;
    hk_samples_visit(&hk_samples, add_sample, lines);
    for (struct hk_live_samples_line *line = lines; line < lines + HK_SAMPLE_SITES; line++) {
        if (line->site == NULL)
            continue;
        live_samples->all.blocks += line->blocks;
        live_samples->all.bytes += line->bytes;
        live_samples->all.pinned += line->pinned;
        line->rank = line->bytes + line->pinned;
        hk_top_insert(live_samples->stacks, sizeof *line, &live_samples->shown, HK_REPORT_STACKS, line, &line->rank, 1);
    }
    hk_os.unmap(lines, bytes);
}
