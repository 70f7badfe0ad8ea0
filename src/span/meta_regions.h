/* Meta regions: keeps the mappings that hold metadata, lists their areas by free room, and counts bytes.
 *
 *   region       one mapping, which holds either areas of 64 KiB or whole pages for hk_meta_pages()
 *   area         lines of 64 bytes; the header at the beginning of the area has a bitmap of the lines in use
 *   by_room[n]   list of the areas whose longest free run has at least 2^n and less than 2^(n+1) lines
 *
 * Owns       This file owns the bitmaps of areas, and the state of their pages. It shares hk_meta, the state of metadata, with meta.c. A page here
 *            has HK_PAGE bytes. If a page of the system is larger, all pages in it become dirty or clean together.
 * Invariant  A region is never unmapped. An area with free lines is on one list, except while its header is being purged. A block does not cross
 *            the end of an area. A page that is free and not dirty holds zeros.
 * Threads    The caller holds hk_meta.lock. */
#pragma once

#include "base/list.h"
#include "base/lock.h"

#define HK_META_AREA_BYTES (64 * HK_KIB)
enum { HK_META_LINE = 64, HK_META_AREA_LINES = 1024, HK_META_AREA_PAGES = 16, HK_META_AREA_FITS = 11 };

/* Describes a region. This struct lies in the header of the region's first area, or at the beginning of a region of pages. */
struct hk_region {
    struct hk_region *older;
    uintptr_t start, end;
    struct hk_meta_area *first; /* NULL for a region of pages */
    uint64_t blank;             /* bit i is set if area i is all zeros, including its header */
    unsigned areas;             /* number of areas */
};

struct hk_meta_area {
    uint64_t used[HK_META_AREA_PAGES]; /* bit n of word p is set if line n of page p is in use */
    struct hk_link link;               /* in a list of by_room */
    uint16_t free;                     /* number of free lines */
    uint16_t longest;                  /* upper bound of the longest run of free lines */
    uint16_t lowest;                   /* no line below this one is free */
    uint16_t dirty;                    /* bit p is set if page p may hold bytes that are not zero */
    uint16_t aged;                     /* bit p is set if page p was idle at the last purge */
    struct hk_region own_region;       /* used only in the first area of a region */
};
enum { HK_META_AREA_HEADER = (sizeof(struct hk_meta_area) + HK_META_LINE - 1) / HK_META_LINE };
_Static_assert(HK_META_AREA_BYTES == (size_t)HK_META_AREA_LINES * HK_META_LINE, "lines");
/* Initializes all fields except own_region. Afterwards, the area is on no list, and all its lines count as in use. */
void hk_meta_area_init(struct hk_meta_area *area);

struct hk_meta_range {
    char *start, *end; /* NULL if no run of free lines is long enough */
    bool zero;         /* true if the range holds zeros */
};
/* Allocates from the lowest run of at least `least` free lines. Takes at most `most` lines of this run. */
struct hk_meta_range hk_meta_area_alloc(struct hk_meta_area *area, unsigned least, unsigned most);
void hk_meta_area_free(struct hk_meta_area *area, void *block, unsigned lines);

/* Returns the idle pages of an area. A page is idle if it is dirty, has no block, and lies in a page of the system without blocks. Bit 0 stands for
 * the header's page. It is set only if `whole` is true, and if the area has no block at all. */
unsigned hk_meta_area_idle(const struct hk_meta_area *area, bool whole);
/* Makes idle pages unavailable for allocation if `used` is true, and available again if it is false. Leaves out the header's page. */
void hk_meta_area_mark_pages(struct hk_meta_area *area, unsigned pages, bool used);

#define HK_META_LISTED_TO (4 * HK_KIB)
#define HK_META_HEADER_BYTES ((size_t)HK_META_AREA_HEADER * HK_META_LINE)

struct hk_meta_block {
    struct hk_meta_block *next;
};

extern struct hk_meta {
    struct hk_lock lock;
    struct hk_region *newest;
    /* listed[n] is the list of the free blocks of n lines. An area counts the lines of such a block as used. */
    struct hk_meta_block *listed[HK_META_LISTED_TO / HK_META_LINE];
    size_t listed_bytes;                       /* bytes of the blocks on these lists */
    struct hk_meta_range range;                /* free lines of an area, from which the next small blocks are cut */
    struct hk_meta_range fresh;                /* the part of the newest area that was never allocated */
    struct hk_list by_room[HK_META_AREA_FITS]; /* each list is initialized when an area first enters it */
    struct hk_meta_range pages;                /* the part of the newest region of pages that was never allocated */
    /* counts of bytes */
    _Atomic size_t xmapped;
    size_t free;              /* free bytes in areas */
    size_t clean;             /* free bytes in pages that are purged */
    size_t areas;             /* bytes of areas that are not blank */
    size_t in_pages, resting; /* bytes of headers and blocks of hk_meta_pages(); purged bytes of these blocks */
    /* The state of a purge. The purge releases the lock while it purges pages of the area `purged`. At all other times, `purged` is NULL. */
    bool purging;
    struct hk_meta_area *purged;
    unsigned purged_pages;
} hk_meta;

extern bool hk_meta_guarded; /* if true, each region has a guard page at both ends; set when HAKMEM starts */

HK_INLINE unsigned hk_meta_lines(size_t size) { return (unsigned)((size + HK_META_LINE - 1) / HK_META_LINE); }
HK_INLINE size_t hk_meta_bytes(const struct hk_meta_range *range) { return (size_t)(range->end - range->start); }

HK_ROOM void hk_meta_list(struct hk_meta_area *area);
/* Lets hk_meta.fresh be the lines of a blank area. Maps a new region if there is no blank area. Returns false if the system refuses memory. */
HK_ROOM bool hk_meta_more_areas(void);
HK_INLINE struct hk_meta_area *hk_meta_area_at(const struct hk_region *region, unsigned i)
{
    return (struct hk_meta_area *)((uintptr_t)region->first + i * HK_META_AREA_BYTES);
}
/* Lets hk_meta.pages be at least `size` mapped bytes. Returns false if the system refuses memory. */
HK_ROOM bool hk_meta_more_pages(size_t size);
/* Frees `size` bytes of an area, which are whole lines. */
HK_ROOM void hk_meta_return(void *p, size_t size);
HK_ROOM void hk_meta_return_range(struct hk_meta_range *range);
/* Takes a run of `least` to `most` free lines, or returns an empty range. Searches areas with short free runs first, so that few areas are in use. */
HK_ROOM struct hk_meta_range hk_meta_take(unsigned least, unsigned most);
