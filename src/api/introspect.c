/* What glibc tells about its heap, told about HAKMEM's: the numbers of the report. */
#include <malloc.h>
#include <errno.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/say.h"
#include "hakmem.h"
#include "report/census.h"
#include "span/runs.h"
#include "tiers/bigcache.h"

struct mallinfo2 hk_mallinfo2(void);
struct mallinfo hk_mallinfo(void);
int hk_mallopt(int parameter, int value);
int hk_malloc_info(int options, FILE *file);
void hk_malloc_stats(void);

static void summarise(struct hk_census *census, size_t *live, size_t *free)
{
    hk_census_take(census);
    *live = census->sum.live + census->sum.remote;
    *free = census->sum.in_bins + census->sum.free_in_slabs + census->idle_dirty + census->idle_clean;
}

struct mallinfo2 hk_mallinfo2(void)
{
    struct hk_census census;
    size_t live, free;
    summarise(&census, &live, &free);
    return (struct mallinfo2){
        .arena = live + free + census.sum.tails,
        .ordblks = census.sum.slabs,
        .hblks = census.big_blocks,
        .hblkhd = census.big_live,
        .fsmblks = census.sum.in_bins,
        .uordblks = live,
        .fordblks = free,
        .keepcost = census.idle_dirty + census.big_cached,
    };
}

static int clamped(size_t value) { return (int)hk_min(value, (size_t)__INT_MAX__); }

struct mallinfo hk_mallinfo(void)
{
    struct mallinfo2 wide = hk_mallinfo2();
    return (struct mallinfo){
        .arena = clamped(wide.arena),
        .ordblks = clamped(wide.ordblks),
        .hblks = clamped(wide.hblks),
        .hblkhd = clamped(wide.hblkhd),
        .fsmblks = clamped(wide.fsmblks),
        .uordblks = clamped(wide.uordblks),
        .fordblks = clamped(wide.fordblks),
        .keepcost = clamped(wide.keepcost),
    };
}

/* glibc's knobs set what HAKMEM finds out by itself: they are accepted, so that a program that insists goes on. */
int hk_mallopt(int parameter, int value)
{
    (void)value;
    return parameter >= M_ARENA_MAX && parameter <= M_MXFAST;
}

int hk_malloc_info(int options, FILE *file)
{
    struct hk_census census;
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    hk_census_take(&census);
    fprintf(file, "<malloc version=\"hakmem-%s\">\n<sizes>\n", HK_VERSION);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_census *row = &census.classes[class];
        if (row->slabs > 0)
            fprintf(file, "  <size class=\"%u\" live=\"%zu\" free=\"%zu\" slabs=\"%zu\"/>\n", hk_classes[class].size,
                    row->live, row->in_bins + row->free_in_slabs, row->slabs);
    }
    fprintf(file, "</sizes>\n<total type=\"live\" count=\"%zu\" size=\"%zu\"/>\n", census.sum.live_blocks, census.sum.live);
    fprintf(file, "<total type=\"big\" count=\"%zu\" size=\"%zu\"/>\n", census.big_blocks, census.big_live);
    fprintf(file, "<system type=\"current\" size=\"%zu\"/>\n</malloc>\n", census.mapped);
    return 0;
}

void hk_malloc_stats(void) { (void)hak_report("-"); }

HK_REPLACES(struct mallinfo2, mallinfo2, (void), hk_mallinfo2)
HK_REPLACES(struct mallinfo, mallinfo, (void), hk_mallinfo)
HK_REPLACES(int, mallopt, (int parameter, int value), hk_mallopt)
HK_REPLACES(int, malloc_info, (int options, FILE *file), hk_malloc_info)
HK_REPLACES(void, malloc_stats, (void), hk_malloc_stats)
