/* Meta regions: keeps the mappings that hold metadata, lists their areas by free room, and counts bytes.
 *
 *   region: mapped together -> areas of 64 KiB, or whole pages for hk_meta_pages
 *   by_room[n] -> areas whose `longest` lies in [2^n, 2^(n+1))
 *   area -> lines of 64 bytes, with a bitmap of the lines in use in its header
 *
 * Owns       This file owns the bitmaps of areas, and the state of their pages. It shares the state of metadata, hk_meta, with meta.c. A page has
 *            HK_PAGE bytes. Pages that share a page of the system become dirty and clean together.
 * Invariant  A region is never unmapped. An area with free lines is on one list, except while its header is being purged. A block lies in one area. A
 *            page that is free and not dirty holds zeros.
 * Threads    The caller holds hk_meta.lock. */
#ifndef HK_META_REGIONS_H
#define HK_META_REGIONS_H

#include "base/lock.h"

#define HK_META_AREA_BYTES (64 * HK_KIB)
enum { HK_META_LINE = 64, HK_META_AREA_LINES = 1024, HK_META_AREA_PAGES = 16, HK_META_AREA_FITS = 11 };

/* Describes a mapping that holds areas or pages. Lies in the first area, or at the beginning of a mapping of pages. */
struct hk_region {
    struct hk_region *older;
    uintptr_t start, end;
    struct hk_meta_area *first; /* NULL: a region of pages */
    uint64_t blank;             /* bit i: area i is all zeros, including its header */
    unsigned areas;
};

struct hk_meta_area {
    uint64_t used[HK_META_AREA_PAGES]; /* bit n of word p: line n of page p */
    struct hk_meta_area *next, **at;   /* links of a list in by_room; `at` is NULL if the area is on no list */
    uint16_t free;                     /* number of free lines */
    uint16_t longest;                  /* upper bound of the longest run of free lines */
    uint16_t lowest;                   /* no line below this one is free */
    uint16_t dirty;                    /* bit p: page p may hold bytes that are not zero */
    uint16_t aged;                     /* bit p: page p was idle at the last purge */
    struct hk_region own_region;       /* used only in a region's first area */
};
enum { HK_META_AREA_HEADER = (sizeof(struct hk_meta_area) + HK_META_LINE - 1) / HK_META_LINE };
_Static_assert(HK_META_AREA_BYTES == (size_t)HK_META_AREA_LINES * HK_META_LINE, "lines");
/* Initializes all fields except own_region. The area is then on no list, and all its lines are in use. */
void hk_meta_area_init(struct hk_meta_area *area);

struct hk_meta_range {
    char *start, *end; /* NULL: no run of enough lines is free */
    bool zero;         /* the range holds zeros */
    unsigned soiled;   /* bit p: the allocation has made page p dirty */
};
/* Finds the lowest run of at least `least` free lines, and takes at most `most` lines of this run. */
struct hk_meta_range hk_meta_area_alloc(struct hk_meta_area *area, unsigned least, unsigned most);
void hk_meta_area_free(struct hk_meta_area *area, void *block, unsigned lines);

HK_INLINE struct hk_meta_area *hk_meta_area_of(const void *block)
{
    return (struct hk_meta_area *)((uintptr_t)block & ~(HK_META_AREA_BYTES - 1));
}

/* Returns the dirty pages without a block that are whole pages of the system. Bit 0 stands for the header's page. It is set only if `whole`, and if
 * the area has no block at all. */
unsigned hk_meta_area_idle(const struct hk_meta_area *area, bool whole);
/* withdraw withholds idle pages from allocation. return makes such pages available again. `cleaned` is true if the pages hold zeros now. */
void hk_meta_area_withdraw(struct hk_meta_area *area, unsigned pages);
void hk_meta_area_return(struct hk_meta_area *area, unsigned pages, bool cleaned);

#define HK_META_LISTED_TO (4 * HK_KIB)
#define HK_META_HEADER_BYTES ((size_t)HK_META_AREA_HEADER * HK_META_LINE)

struct hk_meta_block {
    struct hk_meta_block *next;
};

extern struct hk_meta {
    struct hk_lock lock;
    struct hk_region *newest;
    struct hk_meta_block
        *listed[HK_META_LISTED_TO / HK_META_LINE]; /* free blocks by size in lines; areas count these lines as used */
    size_t listed_bytes;
    struct hk_meta_range range; /* free lines of an area, from which small blocks are cut */
    char *fresh, *fresh_end;    /* the part of the last opened area that was never handed out */
    struct hk_meta_area *by_room[HK_META_AREA_FITS];
    char *next_page, *pages_end; /* the part of the last region of pages that was never handed out */
    /* counts of bytes */
    _Atomic size_t xmapped;
    size_t free;              /* free bytes in areas */
    size_t clean;             /* free bytes in pages that are not resident */
    size_t areas;             /* bytes of areas that are not blank */
    size_t in_pages, resting; /* bytes of pages in use; bytes of these that hk_meta_rest() purged */
    /* set while a purge has released the lock */
    bool purging;
    struct hk_meta_area *purged;
    unsigned purged_pages;
} hk_meta;

extern bool hk_meta_guarded; /* guard pages lie around each region; set at the start of HAKMEM */

HK_INLINE unsigned hk_meta_lines(size_t size) { return (unsigned)((size + HK_META_LINE - 1) / HK_META_LINE); }
HK_INLINE size_t hk_meta_range_bytes(void) { return (size_t)(hk_meta.range.end - hk_meta.range.start); }
HK_INLINE size_t hk_meta_fresh_bytes(void) { return (size_t)(hk_meta.fresh_end - hk_meta.fresh); }

HK_ROOM void hk_meta_list(struct hk_meta_area *area);
HK_ROOM void hk_meta_unlist(struct hk_meta_area *area);
/* Opens a blank area, and makes its lines hk_meta.fresh. Returns false if the system refuses memory. */
HK_ROOM bool hk_meta_more_areas(void);
HK_INLINE struct hk_meta_area *hk_meta_area_at(const struct hk_region *region, unsigned i)
{
    return (struct hk_meta_area *)((uintptr_t)region->first + i * HK_META_AREA_BYTES);
}
/* Makes room for `size` bytes at next_page. Returns false if the system refuses memory. */
HK_ROOM bool hk_meta_more_pages(size_t size);
/* Frees `size` bytes, which are whole lines of an area. */
HK_ROOM void hk_meta_return(void *p, size_t size);
HK_ROOM void hk_meta_return_range(void);
HK_ROOM void hk_meta_return_fresh(void);
/* Takes `least` to `most` free lines from the fullest area that may have them, so that few areas are in use. Returns an empty range if no
 * area has them. */
HK_ROOM struct hk_meta_range hk_meta_take(unsigned least, unsigned most);

#endif
