/* Asks the system which pages are resident, and adds them up by part. */
#include "report/rss_stats.h"

#include <string.h>

#include "base/bits.h"
#include "large/large_state.h"
#include "guard/sampled_slots.h"
#include "prof/sampled_heap.h"
#include "os/maps.h"
#include "os/os.h"
#include "slab/owner.h"
#include "slab/slab.h"
#include "span/meta.h"
#include "span/page_heap.h"

enum { PAGES_AT_ONCE = 512 };

/* A page of the page map's tables, and whether it is resident: an absent one holds no entries and must not be
 * touched. */
struct glance {
    uintptr_t page;
    bool resident;
};

enum { SUMS = sizeof(struct hk_resident_sums) / sizeof(size_t) };

struct walk {
    struct hk_resident_sums *here; /* for this mapping */
    struct hk_resident_sums *all;  /* in total */
    size_t total;                  /* by the kernel's count */
    uintptr_t large_end;           /* the end of the last large block seen: only its first slice has an entry */
    const struct hk_large_block *large;
    struct glance chunks, entries;
};

enum memory { OF_REST, OF_TABLE, OF_CHUNK, OF_IDLE, OF_IDLE_HUGE, OF_SLAB, OF_LARGE, OF_HEAP };

struct stretch {
    uintptr_t start, end;
    enum memory memory;
    const struct hk_descriptor *descriptor;
};

/* The owner may release the slab meanwhile, and another class may be cut in its place: inconsistent values are skipped,
 * so that no bit beyond a bitmap is read. Memory of a bitmap that is gone still counts as HAKMEM's. */
bool hk_slab_page(const struct hk_slab *slab, uintptr_t page, struct hk_slab_page *cut)
{
    unsigned class = slab->d.class < HK_CLASSES ? slab->d.class : 0;
    size_t size = hk_classes[class].size, blocks = slab->d.blocks, free = 0;
    const uint64_t *freebits =
        __atomic_load_n(&slab->freebits, __ATOMIC_ACQUIRE); /* before the start, which tells if it is the slab's */
    size_t from = page - slab->d.start, end = hk_min(from + HK_PAGE, blocks * size);
    size_t most = freebits == slab->own_bits ? sizeof slab->own_bits * 8 : hk_classes[class].slab_bytes / size;
    if (freebits == NULL || from >= slab->d.bytes || slab->d.class != class || blocks > most)
        return false;
    for (size_t block = from / size; block * size < end; block++) {
        size_t overlap = hk_min((block + 1) * size, end) - hk_max(block * size, from);
        free += (freebits[block / 64] >> (block % 64) & 1) != 0 ? overlap : 0;
    }
    size_t blocks_here = end > from ? end - from : 0;
    *cut = (struct hk_slab_page){class, blocks_here - free, free, HK_PAGE - blocks_here};
    return true;
}

static void page_of_slab(struct walk *walk, const struct stretch *stretch, uintptr_t page)
{
    struct hk_slab_page cut;
    struct hk_resident_sums *here = walk->here;
    if (!hk_slab_page((const void *)stretch->descriptor, page, &cut))
        return;
    *(cut.taken != 0 ? &here->pinned[cut.class] : &here->loose[cut.class]) += cut.free;
    here->tails[cut.class] += cut.tail;
    here->taken[cut.class] += cut.taken;
}

/* The pages behind the program's part of the mapping are slack. */
static enum hk_part part_of_large(const struct stretch *stretch, uintptr_t page)
{
    const struct hk_large_block *large = (const void *)stretch->descriptor;
    bool live = !hk_link_linked(&large->link) && page - large->d.start < hk_large_held(large);
    return live ? HK_PART_large_live : HK_PART_large_cached;
}

/* Returns the sum that a page counts for. */
static size_t *sum_of(struct hk_resident_sums *here, const struct stretch *stretch, uintptr_t page)
{
    switch (stretch->memory) {
    case OF_TABLE: return &here->parts[HK_PART_metadata];
    case OF_CHUNK: return &here->areas;
    case OF_IDLE: return &here->parts[HK_PART_idle];
    case OF_IDLE_HUGE: return &here->idle_huge;
    case OF_LARGE: return &here->parts[part_of_large(stretch, page)];
    case OF_HEAP: return &here->parts[HK_PART_heaps];
    default: return &here->rest;
    }
}

/* Of each HK_PAGE: a page of the system is visited in parts, which may belong to several slabs. */
static void divide(struct walk *walk, const struct stretch *stretch)
{
    unsigned char pages[PAGES_AT_ONCE];
    size_t whole = hk_system_page();
    for (uintptr_t at = stretch->start; at < stretch->end; at += sizeof pages * whole) {
        size_t bytes = hk_min(stretch->end - at, sizeof pages * whole);
        if (!hk_os.resident((void *)at, bytes, pages))
            continue;
        for (size_t place = 0; place < bytes; place += HK_PAGE) {
            if ((pages[place / whole] & 1) == 0)
                continue;
            if (stretch->memory == OF_SLAB)
                page_of_slab(walk, stretch, at + place);
            else
                *sum_of(walk->here, stretch, at + place) += HK_PAGE;
        }
    }
}

static void enter_rest(struct walk *walk, uintptr_t start, uintptr_t end)
{
    divide(walk, &(struct stretch){.start = start, .end = end, .memory = OF_REST});
}

static bool holds_page(struct glance *glance, const volatile void *word)
{
    size_t bytes = hk_system_page();
    uintptr_t page = hk_align_down((uintptr_t)word, bytes);
    unsigned char resident = 0;
    if (page != glance->page) {
        glance->resident = hk_os.resident((void *)page, bytes, &resident) && (resident & 1) != 0;
        glance->page = page;
    }
    return glance->resident;
}

static bool in_large(const struct walk *walk, uintptr_t at, struct stretch *found)
{
    if (at >= walk->large_end || at < walk->large->d.start)
        return false;
    *found = (struct stretch){at, walk->large_end, OF_LARGE, &walk->large->d};
    return true;
}

/* Finds a large block that begins in the slice of `at`. */
static bool begins_large(struct walk *walk, uintptr_t at, struct stretch *found)
{
    if (!holds_page(&walk->entries, hk_page_map_entry(at)))
        return false;
    uint32_t entry = hk_page_map_lookup(at);
    if (entry == 0 || hk_entry_class(entry) != HK_CLASS_LARGE)
        return false;
    walk->large = hk_large_at(at);
    walk->large_end = walk->large->d.start + walk->large->d.bytes;
    return in_large(walk, hk_max(at, walk->large->d.start), found);
}

static uintptr_t next_slice(uintptr_t at) { return hk_align_down(at, HK_SLICE) + HK_SLICE; }

static bool slice_at(struct walk *walk, uintptr_t at, struct stretch *found)
{
    enum hk_slice_use slice =
        holds_page(&walk->chunks, hk_page_map_chunk(at)) ? hk_page_heap_slice(at) : HK_SLICE_FOREIGN;
    if (slice == HK_SLICE_FOREIGN)
        return begins_large(walk, at, found);
    *found = (struct stretch){at, next_slice(at), slice == HK_SLICE_FREE_HUGE ? OF_IDLE_HUGE : OF_IDLE, NULL};
    const struct hk_slab *slab = slice == HK_SLICE_USED ? hk_slab_at(at) : NULL;
    if (slab != NULL && at - slab->d.start < slab->d.bytes) {
        found->memory = slab->d.class < HK_CLASSES ? OF_SLAB : OF_HEAP;
        found->descriptor = &slab->d;
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
        at = known == at ? next_slice(at) : known;
    }
    return false;
}

static void keep_lower(struct stretch *lowest, uintptr_t start, uintptr_t end, enum memory memory)
{
    if (start < lowest->start)
        *lowest = (struct stretch){start, end, memory, NULL};
}

static void keep_lower_table(struct stretch *lowest, uintptr_t from, uintptr_t to)
{
    struct hk_page_map_range table = hk_page_map_next_table(from, to);
    if (table.start < table.end)
        keep_lower(lowest, table.start, table.end, OF_TABLE);
}

static void keep_lower_area(struct stretch *lowest, uintptr_t from, uintptr_t to)
{
    if (hk_meta_next(&from, &to))
        keep_lower(lowest, from, to, OF_CHUNK);
}

static void keep_lower_range(struct stretch *lowest, uintptr_t from, uintptr_t to, uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;
    if (start < end && start < to && end > from)
        keep_lower(lowest, hk_max(start, from), hk_min(end, to), OF_TABLE);
}

static void keep_lower_slots(struct stretch *lowest, uintptr_t from, uintptr_t to)
{
    size_t guarded_bytes = hk_load_acquire(hk_slot_range.xbytes),
           apart_bytes = hk_load_acquire(hk_sampled_heap_range.xbytes);
    keep_lower_range(lowest, from, to, hk_load(hk_slot_range.xstart), guarded_bytes);
    keep_lower_range(lowest, from, to, hk_load(hk_sampled_heap_range.xstart), apart_bytes);
}

/* Finds the first stretch of HAKMEM's memory in [from, to). */
static bool next_own(struct walk *walk, uintptr_t from, uintptr_t to, struct stretch *own)
{
    struct stretch heap;
    *own = (struct stretch){.start = to, .end = to};
    keep_lower_table(own, from, to);
    keep_lower_area(own, from, to);
    keep_lower_slots(own, from, to);
    if (next_in_heap(walk, from, own->start, &heap))
        *own = heap;
    own->end = hk_min(own->end, to);
    return own->start < own->end;
}

static size_t share(size_t bytes, uint64_t weight, uint64_t of)
{
    return of == 0 ? 0 : (size_t)((double)bytes * (double)weight / (double)of);
}

/* Pages that were read but never written are present, but the kernel does not count them as resident: its figure is
 * divided in proportion to the present pages, and what that rounds off goes to the largest share. */
static void add_mapping(struct walk *walk, size_t resident)
{
    const size_t *here = (const size_t *)walk->here;
    size_t *all = (size_t *)walk->all, present = 0, divided = 0;
    unsigned largest = 0;
    for (unsigned i = 0; i < SUMS; i++) {
        present += here[i];
        largest = here[i] > here[largest] ? i : largest;
    }
    for (unsigned i = 0; i < SUMS; i++) {
        size_t bytes = present > resident ? share(here[i], resident, present) : here[i];
        all[i] += bytes;
        divided += bytes;
    }
    if (present > resident)
        all[largest] += resident - hk_min(divided, resident);
}

static void divide_mapping(void *context, const struct hk_mapping *mapping)
{
    struct walk *walk = context;
    uintptr_t at = mapping->start;
    if (mapping->resident == 0)
        return;
    walk->total += mapping->resident;
    memset(walk->here, 0, sizeof *walk->here);
    for (struct stretch own; next_own(walk, at, mapping->end, &own); at = own.end) {
        enter_rest(walk, at, own.start);
        divide(walk, &own);
    }
    if (at == mapping->start)
        *(mapping->inode != 0 ? &walk->here->rest_files : &walk->here->rest) = mapping->resident;
    else
        enter_rest(walk, at, mapping->end);
    add_mapping(walk, mapping->resident);
}

/* Residency does not tell which blocks are in bins: all taken blocks are treated alike. */
static void divide_taken(struct hk_resident_class *class, size_t taken, const struct hk_class_stats *row)
{
    uint64_t all = row->live + row->rounding + row->in_bins + row->remote;
    class->rounding = share(taken, row->rounding, all);
    class->in_bins = share(taken, row->in_bins, all);
    class->remote = share(taken, row->remote, all);
    class->live = taken - hk_min(taken, class->rounding + class->in_bins + class->remote);
}

static void add_class(struct hk_rss_stats *rss_stats, const struct hk_resident_class *class)
{
    rss_stats->parts[HK_PART_live] += class->live;
    rss_stats->parts[HK_PART_rounding] += class->rounding;
    rss_stats->parts[HK_PART_thread_caches] += class->in_bins;
    rss_stats->parts[HK_PART_remote_pending] += class->remote;
    rss_stats->parts[HK_PART_free_in_slabs] += class->free_in_slabs;
    rss_stats->parts[HK_PART_slab_tails] += class->tails;
}

static void divide_classes(struct hk_rss_stats *rss_stats, const struct hk_resident_sums *all,
                           const struct hk_heap_stats *heap_stats)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_resident_class *row = &rss_stats->classes[class];
        *row = (struct hk_resident_class){.free_in_slabs = all->pinned[class] + all->loose[class],
                                          .pinned = all->pinned[class],
                                          .tails = all->tails[class]};
        divide_taken(row, all->taken[class], &heap_stats->classes[class]);
        add_class(rss_stats, row);
    }
}

static void divide_areas(struct hk_rss_stats *rss_stats, size_t areas)
{
    size_t spare = hk_meta_spare(), in_use = hk_meta_mapped() - hk_meta_unused();
    spare = share(areas, spare, spare + in_use);
    rss_stats->parts[HK_PART_metadata_spare] += spare;
    rss_stats->parts[HK_PART_metadata] += areas - hk_min(areas, spare);
}

void hk_rss_stats_take(struct hk_rss_stats *rss_stats, const struct hk_heap_stats *heap_stats)
{
    struct walk walk;
    memset(&walk, 0, sizeof walk);
    memset(rss_stats, 0, sizeof *rss_stats);
    walk.all = &rss_stats->sums;
    walk.here = &rss_stats->here;
    hk_smaps_visit(divide_mapping, &walk);
    memcpy(rss_stats->parts, rss_stats->sums.parts, sizeof rss_stats->parts);
    rss_stats->idle_huge = rss_stats->sums.idle_huge;
    rss_stats->parts[HK_PART_idle] += rss_stats->sums.idle_huge;
    rss_stats->rest_files = rss_stats->sums.rest_files;
    rss_stats->rest_of_process = rss_stats->sums.rest_files + rss_stats->sums.rest;
    rss_stats->total = walk.total;
    divide_classes(rss_stats, &rss_stats->sums, heap_stats);
    divide_areas(rss_stats, rss_stats->sums.areas);
}
