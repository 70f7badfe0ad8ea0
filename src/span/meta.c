#include "span/meta.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "os/os.h"
#include "span/footprint.h"
#include "span/meta_area.h"

#define LARGEST_BLOCK (32 * HK_KIB)
#define ROOMY_REGION (512 * HK_KIB)
#define SCARCE_REGION HK_META_AREA_BYTES
#define LARGEST_REGION (64 * HK_META_AREA_BYTES) /* a bit for each chunk */
#define REGION_PART 4                        /* of what is mapped already, so much a region at least: there are few */
#define LISTED_SIZES_TO (4 * HK_KIB)
#define MOST_LISTED (32 * HK_KIB) /* what goes and comes needs no bitmap */
#define KEPT_SPARE (64 * HK_KIB)  /* is not worth a system call */
#define MOST_AT_ONCE (16 * HK_MIB) /* some milliseconds */
#define HEADER_BYTES ((size_t)HK_META_AREA_HEADER * HK_META_LINE)
enum { TRIES = 8, RUN = 2 * HK_PAGE / HK_META_LINE };

struct free_block {
    struct free_block *next;
};

static struct {
    struct hk_lock lock;
    struct hk_region *newest;
    struct free_block *listed[LISTED_SIZES_TO / HK_META_LINE]; /* by size: still in use, as the chunks see it */
    size_t listed_bytes;
    struct hk_meta_range run;        /* was given back to a chunk before; its rest is next */
    char *virgin, *virgin_end;    /* of the chunk that was opened last, what nobody has had */
    struct hk_meta_area *fit[HK_META_AREA_FITS]; /* by the logarithm of their longest run of free grains */
    char *next_page, *pages_end;             /* of the region of pages that came last, what was never handed out */
    /* bytes */
    size_t mapped;
    size_t free;  /* in chunks */
    size_t clean; /* of this, in pages that are not in memory */
    size_t areas;
    size_t in_pages, resting;
    /* while pages are given back, without the lock */
    bool purging;
    struct hk_meta_area *purged;
    unsigned purged_pages;
} meta = {.lock = HK_LOCK_INIT(HK_RANK_META)};

static unsigned lines_of(size_t size) { return (unsigned)((size + HK_META_LINE - 1) / HK_META_LINE); }
static unsigned log_of(unsigned x) { return 31 - (unsigned)__builtin_clz(x); }

static void enter_list(struct hk_meta_area *area)
{
    if (area->longest == 0) {
        area->at = NULL;
        return;
    }
    struct hk_meta_area **list = &meta.fit[log_of(area->longest)];
    area->next = *list;
    area->at = list;
    if (area->next != NULL)
        area->next->at = &area->next;
    *list = area;
}

static void leave_list(struct hk_meta_area *area)
{
    if (area->at == NULL)
        return;
    *area->at = area->next;
    if (area->next != NULL)
        area->next->at = area->at;
    area->at = NULL;
}

static void refit(struct hk_meta_area *area, unsigned before)
{
    if (before != 0 && area->longest != 0 && log_of(before) == log_of(area->longest))
        return;
    leave_list(area);
    enter_list(area);
}

static void enter_region(struct hk_region *region, uintptr_t start, size_t size)
{
    region->start = start;
    region->end = start + size;
    region->older = meta.newest;
    meta.newest = region;
    meta.mapped += size;
}

/* Where address space is scarce, regions are small. */
static size_t region_size(size_t wanted)
{
    size_t usual = hk_load(hk_footprint.xscarce) ? SCARCE_REGION : hk_max(ROOMY_REGION, meta.mapped / REGION_PART);
    return hk_max(hk_align_down(hk_min(usual, LARGEST_REGION), HK_META_AREA_BYTES), wanted);
}

static void open_area(struct hk_meta_area *area)
{
    hk_meta_area_init(area);
    meta.areas += HK_META_AREA_BYTES;
    meta.virgin = (char *)area + HEADER_BYTES;
    meta.virgin_end = (char *)area + HK_META_AREA_BYTES;
}

static bool new_areas(void)
{
    size_t size = region_size(HK_META_AREA_BYTES);
    char *memory = size >= 2 * HK_META_AREA_BYTES ? hk_os.map(size) : NULL;
    if (memory == NULL) {
        size = HK_META_AREA_BYTES;
        memory = hk_os_map_aligned(size, HK_META_AREA_BYTES);
    }
    if (memory == NULL)
        return false;
    struct hk_meta_area *first = (void *)hk_align_up((uintptr_t)memory, HK_META_AREA_BYTES);
    struct hk_region *region = &first->own_region;
    region->first = first;
    region->areas = (unsigned)(((uintptr_t)memory + size - (uintptr_t)first) / HK_META_AREA_BYTES);
    region->blank = (~(uint64_t)0 >> (64 - region->areas)) & ~(uint64_t)1;
    enter_region(region, (uintptr_t)memory, size);
    open_area(first);
    return true;
}

static struct hk_meta_area *area_at(const struct hk_region *region, unsigned i)
{
    return (struct hk_meta_area *)((uintptr_t)region->first + i * HK_META_AREA_BYTES);
}

static bool more_areas(void)
{
    for (struct hk_region *region = meta.newest; region != NULL; region = region->older) {
        if (region->first == NULL || region->blank == 0)
            continue;
        unsigned i = hk_ctz64(region->blank);
        region->blank &= region->blank - 1;
        open_area(area_at(region, i));
        return true;
    }
    return new_areas();
}

static void give_to_area(void *p, size_t size)
{
    if (size == 0)
        return;
    struct hk_meta_area *area = hk_meta_area_of(p);
    unsigned before = area->longest;
    hk_meta_area_free(area, p, lines_of(size));
    refit(area, before);
    meta.free += size;
}

static struct hk_meta_range carve_from(struct hk_meta_area *area, unsigned least, unsigned most)
{
    unsigned before = area->longest;
    struct hk_meta_range taken = hk_meta_area_alloc(area, least, most);
    for (unsigned left = taken.soiled; left != 0; left &= left - 1)
        meta.clean -= HK_PAGE;
    meta.free -= (size_t)(taken.end - taken.start);
    refit(area, before);
    return taken;
}

/* From the fullest chunk that may have the room: what is in use gathers. */
static struct hk_meta_range take_from_areas(unsigned least, unsigned most)
{
    for (unsigned fits = log_of(least); fits < HK_META_AREA_FITS; fits++) {
        unsigned tries = TRIES;
        for (struct hk_meta_area *area = meta.fit[fits], *next; area != NULL && tries > 0; area = next, tries--) {
            next = area->next;
            struct hk_meta_range taken = {0};
            if (area->longest >= least)
                taken = carve_from(area, least, most);
            if (taken.start != NULL)
                return taken;
        }
    }
    return (struct hk_meta_range){0};
}

static size_t run_bytes(void) { return (size_t)(meta.run.end - meta.run.start); }
static size_t virgin_bytes(void) { return (size_t)(meta.virgin_end - meta.virgin); }

static void *from_run(size_t size)
{
    char *p = meta.run.start;
    meta.run.start += size;
    return meta.run.zero ? p : memset(p, 0, size);
}

static void give_run_to_area(void)
{
    give_to_area(meta.run.start, run_bytes());
    meta.run = (struct hk_meta_range){0};
}

static void give_virgin_to_area(void)
{
    give_to_area(meta.virgin, virgin_bytes());
    meta.virgin = meta.virgin_end;
}

static void *from_virgin(size_t size)
{
    if (virgin_bytes() < size) {
        give_virgin_to_area();
        if (!more_areas())
            return NULL;
    }
    void *p = meta.virgin;
    meta.virgin += size;
    return p;
}

/* What was in use before, if it will do. */
static HK_NOINLINE void *from_areas(size_t size)
{
    unsigned lines = lines_of(size);
    if (run_bytes() > 0)
        give_run_to_area();
    if (meta.free >= size)
        meta.run = take_from_areas(lines, (unsigned)hk_max(lines, RUN));
    return run_bytes() >= size ? from_run(size) : from_virgin(size);
}

static void *meta_take(size_t size)
{
    struct free_block **list = &meta.listed[size < LISTED_SIZES_TO ? lines_of(size) : 0], *block = *list;
    if (block != NULL) {
        *list = block->next;
        meta.listed_bytes -= size;
        return memset(block, 0, size);
    }
    return run_bytes() >= size ? from_run(size) : from_areas(size);
}

void *hk_meta_alloc(size_t size)
{
    hk_assert(size > 0);
    if (size > LARGEST_BLOCK)
        return hk_meta_pages(size);
    hk_lock(&meta.lock);
    void *p = meta_take(hk_align_up(size, HK_META_LINE));
    hk_unlock(&meta.lock);
    return p;
}

void hk_meta_free(void *p, size_t size)
{
    hk_assert(size <= LARGEST_BLOCK);
    size = hk_align_up(size, HK_META_LINE);
    hk_lock(&meta.lock);
    if (size < LISTED_SIZES_TO && meta.listed_bytes + size <= MOST_LISTED) {
        struct free_block *block = p, **list = &meta.listed[lines_of(size)];
        block->next = *list;
        *list = block;
        meta.listed_bytes += size;
    } else {
        give_to_area(p, size);
    }
    hk_unlock(&meta.lock);
}

static void give_listed_to_areas(void)
{
    for (unsigned lines = 1; lines < LISTED_SIZES_TO / HK_META_LINE && meta.listed_bytes > 0; lines++)
        while (meta.listed[lines] != NULL) {
            struct free_block *block = meta.listed[lines];
            meta.listed[lines] = block->next;
            meta.listed_bytes -= (size_t)lines * HK_META_LINE;
            give_to_area(block, (size_t)lines * HK_META_LINE);
        }
}

/* As long as there is one region of chunks, pages come from its end: most programs map no more. */
static bool pages_of_blanks(size_t size)
{
    struct hk_region *region = meta.newest;
    if (region == NULL || region->older != NULL || region->first == NULL)
        return false;
    unsigned areas = (unsigned)((size + HK_META_AREA_BYTES - 1) / HK_META_AREA_BYTES);
    if (areas >= region->areas || region->blank >> (region->areas - areas) != (~(uint64_t)0 >> (64 - areas)))
        return false;
    region->areas -= areas;
    region->blank &= (~(uint64_t)0 >> (64 - region->areas));
    meta.next_page = (char *)area_at(region, region->areas);
    meta.pages_end = meta.next_page + areas * HK_META_AREA_BYTES;
    return true;
}

static bool new_pages(size_t size)
{
    if (pages_of_blanks(size))
        return true;
    size_t wanted = HK_PAGE + size, usual = region_size(wanted);
    char *memory = hk_os.map(usual);
    if (memory == NULL && usual > wanted)
        memory = hk_os.map(usual = wanted);
    if (memory == NULL)
        return false;
    enter_region((void *)memory, (uintptr_t)memory, usual);
    meta.in_pages += HK_PAGE;
    meta.next_page = memory + HK_PAGE;
    meta.pages_end = memory + usual;
    return true;
}

void *hk_meta_pages(size_t size)
{
    void *p = NULL;
    size = hk_align_up(size, HK_PAGE);
    hk_lock(&meta.lock);
    if ((size_t)(meta.pages_end - meta.next_page) >= size || new_pages(size)) {
        p = meta.next_page;
        meta.next_page += size;
        meta.in_pages += size;
    }
    hk_unlock(&meta.lock);
    return p;
}

bool hk_meta_rest(void *p, size_t size)
{
    bool gone = hk_os.purge(p, size);
    hk_lock(&meta.lock);
    meta.resting += gone ? size : 0;
    hk_unlock(&meta.lock);
    return gone;
}

void hk_meta_wake(size_t size)
{
    hk_lock(&meta.lock);
    meta.resting -= hk_min(meta.resting, size); /* fork may have come before a rest was noted */
    hk_unlock(&meta.lock);
}

/* The page that is next to be touched may be in part already. */
static size_t spare_locked(void)
{
    size_t begun = -(uintptr_t)meta.virgin & (HK_PAGE - 1);
    return meta.free - meta.clean + meta.listed_bytes + run_bytes() + begun;
}

static bool is_first(const struct hk_meta_area *area) { return area->own_region.first == area; }

/* Without the lock meanwhile. True if all went. */
static bool purge_unlocked(struct hk_meta_area *area, unsigned pages)
{
    bool gone = true;
    meta.purged = area;
    meta.purged_pages = pages;
    hk_unlock(&meta.lock);
    for (unsigned left = pages; left != 0;) {
        unsigned first = hk_ctz64(left), end = first + hk_ctz64(~((uint64_t)left >> first));
        gone &= hk_os.purge((char *)area + first * HK_PAGE, (end - first) * HK_PAGE);
        left &= ~((1u << end) - 1);
    }
    hk_lock(&meta.lock);
    meta.purged = NULL;
    return gone;
}

#define LINES_OF_BLANK (HK_META_AREA_LINES - HK_META_AREA_HEADER)

/* Nobody takes from the pages that go; bit 0 stands for the header, with which the whole chunk goes. */
static void withdraw(struct hk_meta_area *area, unsigned pages)
{
    leave_list(area);
    if ((pages & 1) != 0) {
        meta.free -= (size_t)LINES_OF_BLANK * HK_META_LINE;
        meta.clean -= (HK_META_AREA_PAGES - hk_popcount64(area->dirty)) * HK_PAGE;
        return;
    }
    meta.free -= hk_popcount64(pages) * HK_PAGE;
    hk_meta_area_withdraw(area, pages);
    enter_list(area);
}

/* They did not go, or not all of the chunk: where it should have, the header may be lost. */
static void come_back(struct hk_meta_area *area, unsigned pages, bool gone)
{
    size_t bytes = hk_popcount64(pages) * HK_PAGE;
    if ((pages & 1) != 0) {
        hk_meta_area_init(area);
        give_to_area((char *)area + HEADER_BYTES, (size_t)LINES_OF_BLANK * HK_META_LINE);
        return;
    }
    leave_list(area);
    hk_meta_area_return(area, pages, gone);
    enter_list(area);
    meta.free += bytes;
    meta.clean += gone ? bytes : 0;
}

/* The bytes. */
static size_t purge_idle(struct hk_region *region, unsigned i, unsigned pages)
{
    struct hk_meta_area *area = area_at(region, i);
    withdraw(area, pages);
    bool gone = purge_unlocked(area, pages);
    if (gone && (pages & 1) != 0) {
        region->blank |= (uint64_t)1 << i;
        meta.areas -= HK_META_AREA_BYTES;
    } else {
        come_back(area, pages, gone);
    }
    return gone ? hk_popcount64(pages) * HK_PAGE : 0;
}

/* One that could go whole waits until all of it has been idle for so long. */
static size_t purge_area(struct hk_region *region, unsigned i, bool all)
{
    struct hk_meta_area *area = area_at(region, i);
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

/* One at a time: which chunk it is at, a fork child has to know. */
size_t hk_meta_purge(bool all)
{
    size_t bytes = 0;
    hk_lock(&meta.lock);
    if (!meta.purging && (all || spare_locked() > KEPT_SPARE)) {
        meta.purging = true;
        give_listed_to_areas();
        give_run_to_area();
        if (all)
            give_virgin_to_area();
        for (struct hk_region *region = meta.newest; region != NULL && (all || bytes < MOST_AT_ONCE); region = region->older)
            bytes += purge_region(region, all);
        meta.purging = false;
    }
    hk_unlock(&meta.lock);
    return bytes;
}

size_t hk_meta_mapped(void)
{
    hk_lock(&meta.lock);
    size_t bytes = meta.mapped;
    hk_unlock(&meta.lock);
    return bytes;
}

size_t hk_meta_unused(void)
{
    hk_lock(&meta.lock);
    size_t in_chunks = meta.areas - meta.free - meta.listed_bytes - run_bytes() - virgin_bytes();
    size_t in_use = in_chunks + meta.in_pages - meta.resting;
    size_t bytes = meta.mapped - in_use;
    hk_unlock(&meta.lock);
    return bytes;
}

size_t hk_meta_spare(void)
{
    hk_lock(&meta.lock);
    size_t bytes = spare_locked();
    hk_unlock(&meta.lock);
    return bytes;
}

bool hk_meta_next(uintptr_t *from, uintptr_t *to)
{
    uintptr_t start = *to, end = *to;
    hk_lock(&meta.lock);
    for (const struct hk_region *region = meta.newest; region != NULL; region = region->older) {
        uintptr_t first = hk_max(region->start, *from), behind = hk_min(region->end, *to);
        if (first < behind && first < start) {
            start = first;
            end = behind;
        }
    }
    hk_unlock(&meta.lock);
    *from = start;
    *to = end;
    return start < end;
}

void hk_meta_init(void) { hk_lock_register(HK_RANK_META, &meta.lock); }

/* If another thread was just giving pages back, they are free again, gone or not. */
void hk_meta_fork_child(void)
{
    if (meta.purged != NULL)
        come_back(meta.purged, meta.purged_pages, false);
    meta.purged = NULL;
    meta.purging = false;
}
