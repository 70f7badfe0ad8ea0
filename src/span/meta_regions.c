/* Maps regions of metadata, lists their areas by free room, and allocates lines of an area by its bitmap. */
#include "span/meta_regions.h"
#include "base/message.h"
#include "os/os.h"
#include "span/footprint.h"

#define ROOMY_REGION (512 * HK_KIB)
#define SCARCE_REGION HK_META_AREA_BYTES
#define LARGEST_REGION (64 * HK_META_AREA_BYTES) /* at most 64 areas, because `blank` has 64 bits */
#define REGION_PART 4                            /* a new region has 1/4 of all mapped bytes, so regions stay few */
enum { PAGE_LINES = 64, TRIES = 8 };

bool hk_meta_guarded;
/* Has cache lines of its own, because threads that wait for the lock must not slow down readers of another variable. */
struct hk_meta hk_meta HK_ALIGNED(HK_CACHE_LINE) = {.lock = HK_LOCK_INIT(HK_RANK_META)};

void hk_meta_area_init(struct hk_meta_area *area)
{
    for (unsigned page = 0; page < HK_META_AREA_PAGES; page++)
        area->used[page] = ~(uint64_t)0;
    area->link = (struct hk_link){NULL, NULL};
    area->free = area->longest = area->aged = 0;
    area->lowest = HK_META_AREA_LINES;
    area->dirty = (1u << HK_META_AREA_PAGES) - 1;
}

static unsigned first_fit(struct hk_meta_area *area, unsigned least, unsigned most, unsigned *behind)
{
    const unsigned all = HK_META_AREA_LINES;
    unsigned longest = 0, at = hk_bits_find(area->used, area->lowest, all, UINT64_MAX);
    area->lowest = (uint16_t)at;
    for (unsigned end; at < all; at = hk_bits_find(area->used, end, all, UINT64_MAX)) {
        end = hk_bits_find(area->used, at, (unsigned)hk_min(at + most, all), 0);
        *behind = end;
        if (end - at >= least)
            return at;
        longest = (unsigned)hk_max(longest, end - at);
    }
    area->longest = (uint16_t)longest;
    return all;
}

static void mark(struct hk_meta_area *area, unsigned from, unsigned lines, bool used)
{
    for (unsigned at = from, end = from + lines, next; at < end; at = next) {
        next = (unsigned)hk_min((at | (PAGE_LINES - 1)) + 1, end);
        uint64_t bits = (~(uint64_t)0 >> (PAGE_LINES - (next - at))) << (at % PAGE_LINES);
        hk_assert((area->used[at / PAGE_LINES] & bits) == (used ? 0 : bits));
        area->used[at / PAGE_LINES] ^= bits;
    }
    area->free = (uint16_t)(used ? area->free - lines : area->free + lines);
    area->lowest = (uint16_t)(used ? area->lowest : hk_min(area->lowest, from));
    area->longest = (uint16_t)(used ? hk_min(area->longest, area->free) : area->free); /* an upper bound */
}

/* Rounds a set of pages to pages of the system, which may be larger. If `all`, rounds down and keeps only pages of the system that lie wholly in
 * `pages`. Otherwise rounds up and adds all pages that share a page of the system with one of `pages`. */
static unsigned together(unsigned pages, bool all)
{
    unsigned each = (unsigned)(hk_system_page() / HK_PAGE), group = (1u << each) - 1, found = 0;
    if (each == 1)
        return pages;
    for (unsigned at = 0; at < HK_META_AREA_PAGES; at += each) {
        unsigned here = pages >> at & group;
        found |= (all ? here == group : here != 0) ? group << at : 0;
    }
    return found;
}

struct hk_meta_range hk_meta_area_alloc(struct hk_meta_area *area, unsigned least, unsigned most)
{
    unsigned end, at = first_fit(area, least, most, &end);
    if (at == HK_META_AREA_LINES)
        return (struct hk_meta_range){NULL, NULL, true};
    unsigned pages = together((2u << (end - 1) / PAGE_LINES) - (1u << at / PAGE_LINES), false);
    struct hk_meta_range taken = {
        .start = (char *)area + (size_t)at * HK_META_LINE,
        .end = (char *)area + (size_t)end * HK_META_LINE,
        .zero = (area->dirty & pages) == 0,
    };
    mark(area, at, end - at, true);
    area->dirty = (uint16_t)(area->dirty | pages);
    return taken;
}

void hk_meta_area_free(struct hk_meta_area *area, void *block, unsigned lines)
{
    mark(area, (unsigned)(((uintptr_t)block - (uintptr_t)area) / HK_META_LINE), lines, false);
}

unsigned hk_meta_area_idle(const struct hk_meta_area *area, bool whole)
{
    unsigned pages = whole && area->free == HK_META_AREA_LINES - HK_META_AREA_HEADER;
    for (unsigned page = 1; page < HK_META_AREA_PAGES; page++)
        pages |= (area->used[page] == 0 ? 1u : 0u) << page;
    return together(pages, true) & area->dirty;
}

void hk_meta_area_mark_pages(struct hk_meta_area *area, unsigned pages, bool used)
{
    for (unsigned left = pages & ~1u; left != 0; left &= left - 1)
        mark(area, hk_ctz64(left) * PAGE_LINES, PAGE_LINES, used);
}

static unsigned log_of(unsigned x) { return 31 - (unsigned)__builtin_clz(x); }

HK_ROOM void hk_meta_list(struct hk_meta_area *area)
{
    if (area->longest == 0)
        return;
    struct hk_list *list = &hk_meta.by_room[log_of(area->longest)];
    if (list->head.next == NULL)
        hk_list_init(list);
    hk_list_push_front(list, &area->link);
}

static void relist(struct hk_meta_area *area, unsigned before)
{
    if (before != 0 && area->longest != 0 && log_of(before) == log_of(area->longest))
        return;
    hk_link_leave(&area->link);
    hk_meta_list(area);
}

static void enter_region(struct hk_region *region, uintptr_t start, size_t size)
{
    region->start = start;
    region->end = start + size;
    region->older = hk_meta.newest;
    hk_meta.newest = region;
    hk_add(hk_meta.xmapped, size);
}

static size_t region_size(size_t wanted)
{
    size_t usual =
        hk_load(hk_footprint.xscarce) ? SCARCE_REGION : hk_max(ROOMY_REGION, hk_load(hk_meta.xmapped) / REGION_PART);
    return hk_max(hk_align_down(hk_min(usual, LARGEST_REGION), HK_META_AREA_BYTES), wanted);
}

static char *map_region(size_t size)
{
    size_t page = hk_system_page();
    char *p = hk_meta_guarded ? hk_os.map(size + 2 * page) : NULL;
    if (p == NULL)
        return hk_os.map(size);
    hk_os.bar(p, page);
    hk_os.bar(p + page + size, page);
    return p + page;
}

static void open_area(struct hk_meta_area *area)
{
    hk_meta_area_init(area);
    hk_meta.areas += HK_META_AREA_BYTES;
    char *start = (char *)area;
    hk_meta.fresh = (struct hk_meta_range){start + HK_META_HEADER_BYTES, start + HK_META_AREA_BYTES, .zero = true};
}

static bool new_areas(void)
{
    size_t size = region_size(HK_META_AREA_BYTES);
    char *memory = size >= 2 * HK_META_AREA_BYTES ? map_region(size) : NULL;
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

HK_ROOM bool hk_meta_more_areas(void)
{
    for (struct hk_region *region = hk_meta.newest; region != NULL; region = region->older) {
        if (region->first == NULL || region->blank == 0)
            continue;
        unsigned i = hk_ctz64(region->blank);
        region->blank &= region->blank - 1;
        open_area(hk_meta_area_at(region, i));
        return true;
    }
    return new_areas();
}

/* Takes pages from blank areas at the end of the first region, so that few programs map a second region. Returns false if there is a second region,
 * or if the first has too few blank areas. */
static bool pages_of_blanks(size_t size)
{
    struct hk_region *region = hk_meta.newest;
    if (region == NULL || region->older != NULL || region->first == NULL)
        return false;
    unsigned areas = (unsigned)((size + HK_META_AREA_BYTES - 1) / HK_META_AREA_BYTES);
    if (areas >= region->areas || region->blank >> (region->areas - areas) != (~(uint64_t)0 >> (64 - areas)))
        return false;
    region->areas -= areas;
    region->blank &= (~(uint64_t)0 >> (64 - region->areas));
    char *start = (char *)hk_meta_area_at(region, region->areas);
    hk_meta.pages = (struct hk_meta_range){start, start + areas * HK_META_AREA_BYTES, .zero = true};
    return true;
}

HK_ROOM bool hk_meta_more_pages(size_t size)
{
    if (pages_of_blanks(size))
        return true;
    size_t header = hk_system_page(), wanted = header + size, usual = region_size(wanted);
    char *memory = map_region(usual);
    if (memory == NULL && usual > wanted)
        memory = map_region(usual = wanted);
    if (memory == NULL)
        return false;
    enter_region((void *)memory, (uintptr_t)memory, usual);
    hk_meta.in_pages += header;
    hk_meta.pages = (struct hk_meta_range){memory + header, memory + usual, .zero = true};
    return true;
}

HK_ROOM HK_NOINLINE void hk_meta_return(void *p, size_t size)
{
    if (size == 0)
        return;
    struct hk_meta_area *area = (void *)hk_align_down((uintptr_t)p, HK_META_AREA_BYTES);
    unsigned before = area->longest;
    hk_meta_area_free(area, p, hk_meta_lines(size));
    relist(area, before);
    hk_meta.free += size;
}

HK_ROOM void hk_meta_return_range(struct hk_meta_range *range)
{
    hk_meta_return(range->start, hk_meta_bytes(range));
    *range = (struct hk_meta_range){0};
}

static struct hk_meta_range carve_from(struct hk_meta_area *area, unsigned least, unsigned most)
{
    unsigned before = area->longest, dirty = area->dirty;
    struct hk_meta_range taken = hk_meta_area_alloc(area, least, most);
    hk_meta.clean -= hk_popcount64(area->dirty & ~dirty) * HK_PAGE;
    hk_meta.free -= (size_t)(taken.end - taken.start);
    relist(area, before);
    return taken;
}

HK_ROOM struct hk_meta_range hk_meta_take(unsigned least, unsigned most)
{
    struct hk_meta_range taken = {0};
    for (unsigned fits = log_of(least); fits < HK_META_AREA_FITS; fits++) {
        struct hk_link *head = &hk_meta.by_room[fits].head, *link = head->next, *next;
        for (unsigned tries = TRIES; link != NULL && link != head && tries > 0; link = next, tries--) {
            struct hk_meta_area *area = hk_container_of(link, struct hk_meta_area, link);
            next = link->next;
            if (area->longest >= least && (taken = carve_from(area, least, most)).start != NULL)
                return taken;
        }
    }
    return taken;
}
