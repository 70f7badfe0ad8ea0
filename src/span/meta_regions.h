/* Meta regions: the mappings that hold metadata, their areas sorted by free room, and the counts of bytes.
 *
 *   region: mapped together -> areas of 64 KiB (meta_area.h), or whole pages for hk_meta_pages
 *   by_room[n] -> areas whose `longest` lies in [2^n, 2^(n+1))
 *
 * Owns       the state of metadata, shared with meta.c and meta_purge.c.
 * Invariant  a region is never unmapped; an area with free lines is on one list, unless its header is being purged.
 * Threads    the holder of hk_meta.lock. */
#ifndef HK_META_REGIONS_H
#define HK_META_REGIONS_H

#include "base/lock.h"
#include "span/meta_area.h"

#define HK_META_LISTED_TO (4 * HK_KIB)
#define HK_META_HEADER_BYTES ((size_t)HK_META_AREA_HEADER * HK_META_LINE)

struct hk_meta_block {
    struct hk_meta_block *next;
};

extern struct hk_meta {
    struct hk_lock lock;
    struct hk_region *newest;
    struct hk_meta_block
        *listed[HK_META_LISTED_TO / HK_META_LINE]; /* free blocks by size; their areas count them as used */
    size_t listed_bytes;
    struct hk_meta_range range; /* taken from an area's free lines; small blocks are cut from it */
    char *fresh, *fresh_end;    /* the part of the last opened area that was never handed out */
    struct hk_meta_area *by_room[HK_META_AREA_FITS];
    char *next_page, *pages_end; /* the part of the last region of pages that was never handed out */
    /* bytes */
    size_t mapped;
    size_t free;  /* in areas */
    size_t clean; /* of these, in pages that are not resident */
    size_t areas;
    size_t in_pages, resting;
    /* set while a purge has released the lock */
    bool purging;
    struct hk_meta_area *purged;
    unsigned purged_pages;
} hk_meta;

HK_INLINE unsigned hk_meta_lines(size_t size) { return (unsigned)((size + HK_META_LINE - 1) / HK_META_LINE); }
HK_INLINE size_t hk_meta_range_bytes(void) { return (size_t)(hk_meta.range.end - hk_meta.range.start); }
HK_INLINE size_t hk_meta_fresh_bytes(void) { return (size_t)(hk_meta.fresh_end - hk_meta.fresh); }

/* Puts an area on the list for its room; takes it off. */
HK_ROOM void hk_meta_list(struct hk_meta_area *area);
HK_ROOM void hk_meta_unlist(struct hk_meta_area *area);

/* Opens an area, which becomes the fresh part. False if the system refuses. */
HK_ROOM bool hk_meta_more_areas(void);
HK_INLINE struct hk_meta_area *hk_meta_area_at(const struct hk_region *region, unsigned i)
{
    return (struct hk_meta_area *)((uintptr_t)region->first + i * HK_META_AREA_BYTES);
}
/* Makes room for so many bytes at next_page. False if the system refuses. */
HK_ROOM bool hk_meta_more_pages(size_t size);

/* Frees lines to their area. */
HK_ROOM void hk_meta_return(void *p, size_t size);
HK_ROOM void hk_meta_return_range(void);
HK_ROOM void hk_meta_return_fresh(void);
/* Takes `least` to `most` free lines, from the fullest area that may have them: blocks in use gather. Empty if none has. */
HK_ROOM struct hk_meta_range hk_meta_take(unsigned least, unsigned most);

/* Free bytes in pages that may be resident. */
HK_ROOM size_t hk_meta_spare_locked(void);

#endif
