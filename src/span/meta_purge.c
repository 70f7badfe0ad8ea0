/* Purges the pages of metadata areas on which no line is in use. */
#include "base/bits.h"
#include "os/os.h"
#include "span/meta.h"
#include "span/meta_regions.h"

#define WORTH_A_PURGE (64 * HK_KIB) /* less is not worth a system call */
#define MOST_AT_ONCE (16 * HK_MIB)  /* takes some milliseconds */
#define WHOLE_BYTES ((size_t)(HK_META_AREA_LINES - HK_META_AREA_HEADER) * HK_META_LINE)

static bool is_first(const struct hk_meta_area *area) { return area->own_region.first == area; }

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

/* Releases the lock for the system calls. True if all pages were purged. */
static bool purge_unlocked(struct hk_meta_area *area, unsigned pages)
{
    bool gone = true;
    hk_meta.purged = area;
    hk_meta.purged_pages = pages;
    hk_unlock(&hk_meta.lock);
    for (unsigned left = pages; left != 0;) {
        unsigned first = hk_ctz64(left), end = first + hk_ctz64(~((uint64_t)left >> first));
        gone &= hk_os.purge((char *)area + first * HK_PAGE, (end - first) * HK_PAGE);
        left &= ~((1u << end) - 1);
    }
    hk_lock(&hk_meta.lock);
    hk_meta.purged = NULL;
    return gone;
}

/* Withholds the pages from allocation. Bit 0 is the header's page: its purge takes the whole area. */
static void withdraw(struct hk_meta_area *area, unsigned pages)
{
    hk_meta_unlist(area);
    if ((pages & 1) != 0) {
        hk_meta.free -= WHOLE_BYTES;
        hk_meta.clean -= (HK_META_AREA_PAGES - hk_popcount64(area->dirty)) * HK_PAGE;
        return;
    }
    hk_meta.free -= hk_popcount64(pages) * HK_PAGE;
    hk_meta_area_withdraw(area, pages);
    hk_meta_list(area);
}

/* Ends withdraw(). A purge of the whole area that failed may have taken the header: the area is initialized anew. */
static void come_back(struct hk_meta_area *area, unsigned pages, bool gone)
{
    size_t bytes = hk_popcount64(pages) * HK_PAGE;
    if ((pages & 1) != 0) {
        hk_meta_area_init(area);
        hk_meta_return((char *)area + HK_META_HEADER_BYTES, WHOLE_BYTES);
        return;
    }
    hk_meta_unlist(area);
    hk_meta_area_return(area, pages, gone);
    hk_meta_list(area);
    hk_meta.free += bytes;
    hk_meta.clean += gone ? bytes : 0;
}

/* Returns the bytes purged. */
static size_t purge_idle(struct hk_region *region, unsigned i, unsigned pages)
{
    struct hk_meta_area *area = hk_meta_area_at(region, i);
    withdraw(area, pages);
    bool gone = purge_unlocked(area, pages);
    if (gone && (pages & 1) != 0) {
        region->blank |= (uint64_t)1 << i;
        hk_meta.areas -= HK_META_AREA_BYTES;
    } else {
        come_back(area, pages, gone);
    }
    return gone ? hk_popcount64(pages) * HK_PAGE : 0;
}

/* An area that is all idle is purged as a whole, once each of its pages has aged. */
static size_t purge_area(struct hk_region *region, unsigned i, bool all)
{
    struct hk_meta_area *area = hk_meta_area_at(region, i);
    unsigned idle = hk_meta_area_idle(area, !is_first(area));
    unsigned aged = all ? idle : idle & area->aged;
    area->aged = (uint16_t)idle;
    bool part_of_whole = (idle & 1) != 0 && aged != idle;
    return aged == 0 || part_of_whole ? 0 : purge_idle(region, i, aged);
}

static size_t purge_region(struct hk_region *region, bool all)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < region->areas; i++)
        if ((region->blank >> i & 1) == 0)
            bytes += purge_area(region, i, all);
    return bytes;
}

/* One purge at a time: a fork child repairs the one area that is being purged. */
size_t hk_meta_purge(bool all)
{
    size_t bytes = 0;
    hk_lock(&hk_meta.lock);
    if (!hk_meta.purging && (all || hk_meta_spare_locked() > WORTH_A_PURGE)) {
        hk_meta.purging = true;
        return_listed();
        hk_meta_return_range();
        if (all)
            hk_meta_return_fresh();
        for (struct hk_region *region = hk_meta.newest; region != NULL && (all || bytes < MOST_AT_ONCE);
             region = region->older)
            bytes += purge_region(region, all);
        hk_meta.purging = false;
    }
    hk_unlock(&hk_meta.lock);
    return bytes;
}

/* The pages that another thread was purging are free again, and count as dirty. */
void hk_meta_fork_child(void)
{
    if (hk_meta.purged != NULL)
        come_back(hk_meta.purged, hk_meta.purged_pages, false);
    hk_meta.purged = NULL;
    hk_meta.purging = false;
}
