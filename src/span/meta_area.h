/* Chunk: 64 KiB of metadata, cut into grains of 64 bytes; which are in use is a bitmap at its beginning.
 * Owns       a chunk's bitmap, and what is known of its pages.
 * Invariant  a block lies in one chunk; a page that is free and not dirty holds zeros.
 * Threads    whoever holds meta's lock. */
#ifndef HK_META_AREA_H
#define HK_META_AREA_H

#include "base/base.h"

#define HK_META_AREA_BYTES (64 * HK_KIB)
enum { HK_META_LINE = 64, HK_META_AREA_LINES = 1024, HK_META_AREA_PAGES = 16, HK_META_AREA_FITS = 11 };

/* Chunks that were mapped together, or pages that are no chunks. At the beginning of the memory that it tells of. */
struct hk_region {
    struct hk_region *older;
    uintptr_t start, end;
    struct hk_meta_area *first; /* NULL: no chunks */
    uint64_t blank;         /* bit i: chunk i is all zeros, its header too */
    unsigned areas;
};

struct hk_meta_area {
    uint64_t used[HK_META_AREA_PAGES]; /* bit g of word p: grain g of page p */
    struct hk_meta_area *next, **at;   /* on the list of those that may have room for as much */
    uint16_t free;                 /* grains */
    uint16_t longest;              /* no run of free grains is longer */
    uint16_t lowest;               /* no grain below is free */
    uint16_t dirty;                /* bit p: page p may hold something */
    uint16_t aged;                 /* bit p: page p was idle at the last pass */
    struct hk_region own_region;   /* in a region's first chunk */
};
enum { HK_META_AREA_HEADER = (sizeof(struct hk_meta_area) + HK_META_LINE - 1) / HK_META_LINE };
_Static_assert(HK_META_AREA_BYTES == (size_t)HK_META_AREA_LINES * HK_META_LINE, "grains");

/* Memory becomes a chunk, whatever it holds, but for what it says of a region: on no list, and all in use. */
void hk_meta_area_init(struct hk_meta_area *area);

/* What was taken: `least` grains or more. */
struct hk_meta_range {
    char *start, *end; /* NULL: no run of so many grains is free */
    bool zero;         /* holds zeros */
    unsigned soiled;   /* pages that were clean before */
};
/* The lowest free run of at least so many grains; of a longer one, `most`. */
struct hk_meta_range hk_meta_area_alloc(struct hk_meta_area *area, unsigned least, unsigned most);
void hk_meta_area_free(struct hk_meta_area *area, void *block, unsigned lines);

HK_INLINE struct hk_meta_area *hk_meta_area_of(const void *block)
{
    return (struct hk_meta_area *)((uintptr_t)block & ~(HK_META_AREA_BYTES - 1));
}

/* Pages that hold no block, but may hold something; bit 0, which has the header, only where `whole`, and no other page has a
 * block either. */
unsigned hk_meta_area_idle(const struct hk_meta_area *area, bool whole);

/* Nobody takes from these idle pages until they come back: `cleaned`, they hold zeros then. */
void hk_meta_area_withdraw(struct hk_meta_area *area, unsigned pages);
void hk_meta_area_return(struct hk_meta_area *area, unsigned pages, bool cleaned);

#endif
