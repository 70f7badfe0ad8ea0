/* Allocates metadata in lines of 64 bytes, or in whole pages. Purges those pages of areas (64 KiB each) that have no line in use. */
#include "span/meta.h"
#include "base/message.h"
#include "os/os.h"
#include "span/meta_regions.h"

#define LARGEST_BLOCK (32 * HK_KIB)
#define MOST_LISTED (32 * HK_KIB)   /* most bytes of free blocks on the lists by size, which are faster than a bitmap */
#define WORTH_A_PURGE (64 * HK_KIB) /* a purge of fewer bytes is not worth its system calls */
#define MOST_AT_ONCE (16 * HK_MIB)  /* a purge stops after this many bytes, which take some milliseconds */
#define WHOLE_BYTES ((size_t)(HK_META_AREA_LINES - HK_META_AREA_HEADER) * HK_META_LINE)
enum { RANGE_LINES = 2 * HK_PAGE / HK_META_LINE };

static void *from_range(struct hk_meta_range *range, size_t size)
{
    char *p = range->start;
    range->start += size;
    return range->zero ? p : memset(p, 0, size);
}

/* Prefers lines that were used before. If too few of these are free, allocates lines that were never used. */
static HK_NOINLINE void *from_areas(size_t size)
{
    unsigned lines = hk_meta_lines(size);
    hk_meta_return_range(&hk_meta.range);
    if (hk_meta.free >= size)
        hk_meta.range = hk_meta_take(lines, (unsigned)hk_max(lines, RANGE_LINES));
    if (hk_meta_bytes(&hk_meta.range) >= size)
        return from_range(&hk_meta.range, size);
    if (hk_meta_bytes(&hk_meta.fresh) < size) {
        hk_meta_return_range(&hk_meta.fresh);
        if (!hk_meta_more_areas())
            return NULL;
    }
    return from_range(&hk_meta.fresh, size);
}

static void *alloc_locked(size_t size)
{
    struct hk_meta_block **list = &hk_meta.listed[size < HK_META_LISTED_TO ? hk_meta_lines(size) : 0], *block = *list;
    if (block != NULL) {
        *list = block->next;
        hk_meta.listed_bytes -= size;
        return memset(block, 0, size);
    }
    return hk_meta_bytes(&hk_meta.range) >= size ? from_range(&hk_meta.range, size) : from_areas(size);
}

void *hk_meta_alloc(size_t size)
{
    hk_assert(size > 0);
    if (size > LARGEST_BLOCK)
        return hk_meta_pages(size);
    return HK_UNDER(&hk_meta.lock, alloc_locked(hk_align_up(size, HK_META_LINE)));
}

void hk_meta_free(void *p, size_t size)
{
    hk_assert(size <= LARGEST_BLOCK);
    size = hk_align_up(size, HK_META_LINE);
    hk_lock(&hk_meta.lock);
    if (size < HK_META_LISTED_TO && hk_meta.listed_bytes + size <= MOST_LISTED) {
        struct hk_meta_block *block = p, **list = &hk_meta.listed[hk_meta_lines(size)];
        block->next = *list;
        *list = block;
        hk_meta.listed_bytes += size;
    } else {
        hk_meta_return(p, size);
    }
    hk_unlock(&hk_meta.lock);
}

void *hk_meta_pages(size_t size)
{
    void *p = NULL;
    size = hk_in_system_pages(size);
    hk_lock(&hk_meta.lock);
    if (hk_meta_bytes(&hk_meta.pages) >= size || hk_meta_more_pages(size)) {
        p = from_range(&hk_meta.pages, size);
        hk_meta.in_pages += size;
    }
    hk_unlock(&hk_meta.lock);
    return p;
}

bool hk_meta_rest(void *p, size_t size)
{
    bool gone = hk_os.purge(p, size);
    HK_UNDER(&hk_meta.lock, hk_meta.resting += gone ? size : 0);
    return gone;
}

/* `resting` is too low if a fork prevented the count. */
void hk_meta_wake(size_t size) { HK_UNDER(&hk_meta.lock, hk_meta.resting -= hk_min(hk_meta.resting, size)); }

size_t hk_meta_mapped(void) { return hk_load(hk_meta.xmapped); }

size_t hk_meta_unused(void)
{
    hk_lock(&hk_meta.lock);
    size_t in_areas = hk_meta.areas - hk_meta.free - hk_meta.listed_bytes - hk_meta_bytes(&hk_meta.range) -
                      hk_meta_bytes(&hk_meta.fresh);
    size_t in_use = in_areas + hk_meta.in_pages - hk_meta.resting, bytes = hk_meta_mapped() - in_use;
    hk_unlock(&hk_meta.lock);
    return bytes;
}

/* Returns the bytes that are not in use but may be resident. They include the unused rest of the page that `fresh` points into. */
static size_t spare_locked(void)
{
    size_t begun = -(uintptr_t)hk_meta.fresh.start & (hk_system_page() - 1);
    return hk_meta.free - hk_meta.clean + hk_meta.listed_bytes + hk_meta_bytes(&hk_meta.range) + begun;
}

size_t hk_meta_spare(void) { return HK_UNDER(&hk_meta.lock, spare_locked()); }

struct hk_range hk_meta_next(uintptr_t from, uintptr_t to)
{
    struct hk_range lowest = {to, to};
    hk_lock(&hk_meta.lock);
    for (const struct hk_region *region = hk_meta.newest; region != NULL; region = region->older)
        hk_range_keep_lowest(&lowest, from, to, region->start, region->end);
    hk_unlock(&hk_meta.lock);
    return lowest;
}

void hk_meta_init(void) { hk_lock_register(HK_RANK_META, &hk_meta.lock); }

static void return_listed(void)
{
    for (unsigned lines = 1; lines < HK_META_LISTED_TO / HK_META_LINE && hk_meta.listed_bytes > 0; lines++)
        while (hk_meta.listed[lines] != NULL) {
            struct hk_meta_block *block = hk_meta.listed[lines];
            hk_meta.listed[lines] = block->next;
            hk_meta.listed_bytes -= (size_t)lines * HK_META_LINE;
            hk_meta_return(block, (size_t)lines * HK_META_LINE);
        }
}

/* Makes pages unavailable for allocation before they are purged. If bit 0 (the header's page) is set, the whole area will be purged. */
static void withdraw(struct hk_meta_area *area, unsigned pages)
{
    hk_link_leave(&area->link);
    if ((pages & 1) != 0) {
        hk_meta.free -= WHOLE_BYTES;
        hk_meta.clean -= (HK_META_AREA_PAGES - hk_popcount64(area->dirty)) * HK_PAGE;
        return;
    }
    hk_meta.free -= hk_popcount64(pages) * HK_PAGE;
    hk_meta_area_mark_pages(area, pages, true);
    hk_meta_list(area);
}

/* Makes pages available again after a purge. If a purge of the whole area failed, initializes the area, because its header may be gone. */
static void come_back(struct hk_meta_area *area, unsigned pages, bool gone)
{
    size_t bytes = hk_popcount64(pages) * HK_PAGE;
    if ((pages & 1) != 0) {
        hk_meta_area_init(area);
        hk_meta_return((char *)area + HK_META_HEADER_BYTES, WHOLE_BYTES);
        return;
    }
    hk_link_leave(&area->link);
    hk_meta_area_mark_pages(area, pages, false);
    hk_meta_list(area);
    hk_meta.free += bytes;
    if (gone) {
        area->dirty = (uint16_t)(area->dirty & ~pages);
        hk_meta.clean += bytes;
    }
}

/* Purges pages of area `i`. Releases the lock during the system calls. Returns the purged bytes, or 0 if the system refuses a purge. */
static size_t purge_idle(struct hk_region *region, unsigned i, unsigned pages)
{
    struct hk_meta_area *area = hk_meta_area_at(region, i);
    bool gone = true;
    withdraw(area, pages);
    hk_meta.purged = area;
    hk_meta.purged_pages = pages;
    hk_unlock(&hk_meta.lock);
    for (uint32_t left = pages, run; left != 0; left &= ~run) {
        run = hk_lowest_run32(left);
        gone &= hk_os.purge((char *)area + hk_ctz64(run) * HK_PAGE, hk_popcount64(run) * HK_PAGE);
    }
    hk_lock(&hk_meta.lock);
    hk_meta.purged = NULL;
    if (gone && (pages & 1) != 0) {
        region->blank |= (uint64_t)1 << i;
        hk_meta.areas -= HK_META_AREA_BYTES;
    } else {
        come_back(area, pages, gone);
    }
    return gone ? hk_popcount64(pages) * HK_PAGE : 0;
}

/* Purges the idle pages (dirty, without blocks) of area `i` that were also idle at the last purge, or all idle pages if `all`. An area without
 * blocks, unless it is the region's first, is purged only as a whole, and without `all` only if all its idle pages were idle at the last purge. */
static size_t purge_area(struct hk_region *region, unsigned i, bool all)
{
    struct hk_meta_area *area = hk_meta_area_at(region, i);
    unsigned idle = hk_meta_area_idle(area, area != region->first), aged = all ? idle : idle & area->aged;
    area->aged = (uint16_t)idle;
    bool part_of_whole = (idle & 1) != 0 && aged != idle;
    return aged == 0 || part_of_whole ? 0 : purge_idle(region, i, aged);
}

/* Only one thread purges at a time, because a fork child can repair only one area that was being purged. */
size_t hk_meta_purge(bool all)
{
    size_t bytes = 0;
    hk_lock(&hk_meta.lock);
    if (!hk_meta.purging && (all || spare_locked() > WORTH_A_PURGE)) {
        hk_meta.purging = true;
        return_listed();
        hk_meta_return_range(&hk_meta.range);
        if (all)
            hk_meta_return_range(&hk_meta.fresh);
        for (struct hk_region *region = hk_meta.newest; region != NULL && (all || bytes < MOST_AT_ONCE);
             region = region->older)
            for (unsigned i = 0; i < region->areas; i++)
                bytes += (region->blank >> i & 1) == 0 ? purge_area(region, i, all) : 0;
        hk_meta.purging = false;
    }
    hk_unlock(&hk_meta.lock);
    return bytes;
}

/* Makes the pages available again that another thread was purging at the fork. They count as dirty, because the purge may not have happened. */
void hk_meta_fork_child(void)
{
    if (hk_meta.purged != NULL)
        come_back(hk_meta.purged, hk_meta.purged_pages, false);
    hk_meta.purged = NULL;
    hk_meta.purging = false;
}
