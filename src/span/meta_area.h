/* Meta area: 64 KiB of metadata in lines of 64 bytes, with a bitmap of the lines in use in its header.
 * Owns       the bitmap, and the state of the area's pages.
 *            A page is one of HK_PAGE; those of one page of the system become dirty and clean together.
 * Invariant  a block lies in one area; a page that is free and not dirty holds zeros.
 * Threads    the holder of meta's lock. */
#ifndef HK_META_AREA_H
#define HK_META_AREA_H

#include "base/base.h"

#define HK_META_AREA_BYTES (64 * HK_KIB)
enum { HK_META_LINE = 64, HK_META_AREA_LINES = 1024, HK_META_AREA_PAGES = 16, HK_META_AREA_FITS = 11 };

/* The header of one mapping of areas or of pages; stands at its beginning. */
struct hk_region {
    struct hk_region *older;
    uintptr_t start, end;
    struct hk_meta_area *first; /* NULL: a region of pages */
    uint64_t blank;             /* bit i: area i is all zeros, including its header */
    unsigned areas;
};

struct hk_meta_area {
    uint64_t used[HK_META_AREA_PAGES]; /* bit n of word p: line n of page p */
    struct hk_meta_area *next, **at;   /* on the list of areas with about as much room */
    uint16_t free;                     /* lines */
    uint16_t longest;                  /* upper bound of the longest run of free lines */
    uint16_t lowest;                   /* no line below is free */
    uint16_t dirty;                    /* bit p: page p may not be zero */
    uint16_t aged;                     /* bit p: page p was idle at the last purge */
    struct hk_region own_region;       /* in a region's first area */
};
enum { HK_META_AREA_HEADER = (sizeof(struct hk_meta_area) + HK_META_LINE - 1) / HK_META_LINE };
_Static_assert(HK_META_AREA_BYTES == (size_t)HK_META_AREA_LINES * HK_META_LINE, "lines");

/* Initializes all but own_region: on no list, all lines in use. */
void hk_meta_area_init(struct hk_meta_area *area);

struct hk_meta_range {
    char *start, *end; /* NULL: no such run of lines is free */
    bool zero;         /* the range holds zeros */
    unsigned soiled;   /* pages that became dirty by this */
};
/* Takes the lowest run of at least `least` free lines, and at most `most` lines of it. */
struct hk_meta_range hk_meta_area_alloc(struct hk_meta_area *area, unsigned least, unsigned most);
void hk_meta_area_free(struct hk_meta_area *area, void *block, unsigned lines);

HK_INLINE struct hk_meta_area *hk_meta_area_of(const void *block)
{
    return (struct hk_meta_area *)((uintptr_t)block & ~(HK_META_AREA_BYTES - 1));
}

/* Dirty pages without a block, where they are whole pages of the system. Bit 0, the header's page, is set only if `whole` and the area has no block at all. */
unsigned hk_meta_area_idle(const struct hk_meta_area *area, bool whole);

/* Withholds idle pages from allocation, and ends that; `cleaned`: they hold zeros now. */
void hk_meta_area_withdraw(struct hk_meta_area *area, unsigned pages);
void hk_meta_area_return(struct hk_meta_area *area, unsigned pages, bool cleaned);

#endif
