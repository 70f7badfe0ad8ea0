/* Defines mallinfo, mallopt, malloc_info and malloc_stats, and the functions of hakmem.h that return or write statistics. */
#include <errno.h>
#include <stdio.h>
#include "base/libc.h"
#include "hakmem.h"
#include "report/report.h"
#include "runtime/exit_report.h"
#include "runtime/lifecycle.h"

/* hakmem.h declares these functions only after glibc's <malloc.h>, so it does not declare them with musl or in the unity build. */
struct mallinfo hak_mallinfo(void);
struct mallinfo2 hak_mallinfo2(void);

static size_t in_use(const struct hk_heap_stats *heap_stats)
{
    return heap_stats->sum.live + heap_stats->sum.rounding + heap_stats->sum.remote;
}

static size_t free_for_use(const struct hk_heap_stats *heap_stats)
{
    return heap_stats->sum.in_bins + heap_stats->sum.free_in_slabs + heap_stats->idle_dirty + heap_stats->idle_clean;
}

/* Passes heap statistics to `use`. Returns 0, or ENOMEM if memory for the statistics is refused. */
static int with_heap_stats(void (*use)(void *to, const struct hk_heap_stats *heap_stats), void *to)
{
    struct hk_report *report = hk_report_open();
    if (report == NULL)
        return ENOMEM;
    hk_heap_stats_take(&report->heap_stats);
    use(to, &report->heap_stats);
    hk_report_close(report);
    return 0;
}

static void fill_info(void *info, const struct hk_heap_stats *heap_stats)
{
    *(struct mallinfo2 *)info = (struct mallinfo2){
        .arena = in_use(heap_stats) + free_for_use(heap_stats) + heap_stats->sum.tails,
        .ordblks = heap_stats->sum.slabs,
        .hblks = heap_stats->tiers[HK_TIER_LARGE].live_blocks,
        .hblkhd = heap_stats->parts[HK_PART_large_live],
        .fsmblks = heap_stats->sum.in_bins,
        .uordblks = in_use(heap_stats),
        .fordblks = free_for_use(heap_stats),
        .keepcost = heap_stats->idle_dirty + heap_stats->parts[HK_PART_large_cached],
    };
}

/* If memory for the statistics is refused, returns zeros, because the interface has no error code. */
HK_EXPORT struct mallinfo2 hak_mallinfo2(void)
{
    struct mallinfo2 info = {.arena = 0};
    (void)with_heap_stats(fill_info, &info);
    return info;
}

HK_EXPORT struct mallinfo hak_mallinfo(void)
{
    struct mallinfo2 wide = hak_mallinfo2();
#define CLAMPED(field) .field = (int)hk_min(wide.field, (size_t)__INT_MAX__)
    return (struct mallinfo){CLAMPED(arena),   CLAMPED(ordblks),  CLAMPED(hblks),    CLAMPED(hblkhd),
                             CLAMPED(fsmblks), CLAMPED(uordblks), CLAMPED(fordblks), CLAMPED(keepcost)};
}

enum { LARGEST_MXFAST = 80 * sizeof(size_t) / 4 };

/* Changes nothing, because HAKMEM adapts by itself. Programs check the result, which is 0 only for a value of M_MXFAST out of range, as in glibc. */
HK_EXPORT int hak_mallopt(int parameter, int value)
{
    if (parameter == HK_MALLOPT_WHO_SERVES)
        return hk_answer_who_serves();
    return parameter != M_MXFAST || (value >= 0 && value <= LARGEST_MXFAST);
}

/* Writes a line for each size class that has slabs. As in glibc, the attributes `total` and `count` are the bytes and the number of free blocks. */
static void info_classes(FILE *file, const struct hk_heap_stats *heap_stats)
{
    size_t smallest = 1;
    fprintf(file, "<sizes>\n");
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_stats *row = &heap_stats->classes[class];
        size_t size = hk_classes[class].size, free = row->in_bins + row->free_in_slabs;
        if (row->slabs > 0)
            fprintf(file, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\" live=\"%zu\" slabs=\"%zu\"/>\n",
                    smallest, size, free, free / size, (size_t)(row->live + row->rounding), (size_t)row->slabs);
        smallest = size + 1;
    }
    fprintf(file, "</sizes>\n");
}

static void info_total(FILE *file, const char *type, size_t count, size_t size)
{
    fprintf(file, "<total type=\"%s\" count=\"%zu\" size=\"%zu\"/>\n", type, count, size);
}

static void write_info(void *file, const struct hk_heap_stats *heap_stats)
{
    const struct hk_class_stats *large = &heap_stats->tiers[HK_TIER_LARGE];
    size_t in_bins = 0;
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        in_bins += heap_stats->classes[class].in_bins / hk_classes[class].size;
    fprintf(file, "<malloc version=\"hakmem-%s\">\n<heap nr=\"0\">\n", HK_VERSION);
    info_classes(file, heap_stats);
    info_total(file, "fast", in_bins, heap_stats->sum.in_bins);
    info_total(file, "rest", heap_stats->sum.slabs, free_for_use(heap_stats) - heap_stats->sum.in_bins);
    info_total(file, "live", heap_stats->sum.live_blocks, heap_stats->sum.live + heap_stats->sum.rounding);
    fprintf(file, "</heap>\n");
    info_total(file, "mmap", large->live_blocks, large->live);
    fprintf(file, "<system type=\"current\" size=\"%zu\"/>\n", heap_stats->mapped);
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(heap_stats, part))
            fprintf(file, "<aspace type=\"%s\" size=\"%zu\"/>\n", hk_part_rows[part].name, heap_stats->parts[part]);
    fprintf(file, "</malloc>\n");
}

/* Writes a report in glibc's XML format, which shows one heap. Its "fast" row counts the blocks in bins, and its "rest" row all other free memory. */
HK_EXPORT int hak_malloc_info(int options, FILE *file)
{
    return options != 0 ? EINVAL : with_heap_stats(write_info, file);
}

HK_EXPORT int hak_report(const char *path) { return hk_report_write(path) < 0 ? -1 : 0; }

HK_EXPORT int hak_heap_profile(const char *path)
{
    return hk_started() && hk_heap_profile_write_to(path) == 0 ? 0 : -1;
}

HK_EXPORT void hak_malloc_stats(void) { (void)hak_report("-"); }

static void fill_stats(void *stats, const struct hk_heap_stats *heap_stats)
{
    const struct hk_class_stats *large = &heap_stats->tiers[HK_TIER_LARGE];
    *(struct hak_stats *)stats = (struct hak_stats){
#define HK_PART(name, meaning, high) .name = heap_stats->parts[HK_PART_##name],
#include "report/parts.def"
        .version = HAKMEM_VERSION,
        .mapped = heap_stats->mapped,
        .footprint = hk_decay_footprint(),
        .idle_resident = heap_stats->idle_dirty,
        .live_blocks = heap_stats->sum.live_blocks + large->live_blocks + heap_stats->other_blocks,
        .threads = heap_stats->threads,
        .mallocs = heap_stats->mallocs,
        .frees = heap_stats->frees,
        .misses = heap_stats->sum.misses + large->misses,
#define COUNTED(name) .name = heap_stats->counts[HK_STAT_##name]
        COUNTED(remote_frees),
        COUNTED(large_calls),
        COUNTED(large_mapped),
        COUNTED(purges),
        COUNTED(purged_bytes),
        COUNTED(os_refusals),
        COUNTED(limit_refusals),
        COUNTED(out_of_memory),
        COUNTED(threads_started),
        COUNTED(threads_ended),
        COUNTED(forks),
    };
}

/* The layout of struct hak_stats is part of the ABI, so no field may move, and new fields are added at the end. */
_Static_assert(offsetof(struct hak_stats, footprint) == 24 && offsetof(struct hak_stats, live_blocks) == 128 &&
                   offsetof(struct hak_stats, forks) == 248 && offsetof(struct hak_stats, heaps) == 256 &&
                   sizeof(struct hak_stats) == 264,
               "a field of hak_stats has moved");

/* Writes `size` bytes, because the caller may have another version of the struct. Zeroes the fields that only the caller's version has. */
HK_EXPORT int hak_get_stats(struct hak_stats *stats, size_t size)
{
    struct hak_stats filled;
    bool valid = stats != NULL && size >= offsetof(struct hak_stats, mapped);
    int error = valid ? with_heap_stats(fill_stats, &filled) : EINVAL;
    if (error != 0) {
        errno = error;
        return -1;
    }
    filled.size = hk_align_down(hk_min(size, sizeof filled), sizeof(uint64_t));
    memcpy(stats, &filled, filled.size);
    memset((char *)stats + filled.size, 0, size - filled.size);
    return 0;
}

HK_REPLACES(struct mallinfo2, mallinfo2, (void), hak_mallinfo2)
HK_REPLACES(struct mallinfo, mallinfo, (void), hak_mallinfo)
HK_REPLACES(int, mallopt, (int parameter, int value), hak_mallopt)
HK_REPLACES(int, malloc_info, (int options, FILE *file), hak_malloc_info)
HK_REPLACES(void, malloc_stats, (void), hak_malloc_stats)
HK_REPLACES_IN_GLIBC(struct mallinfo, __libc_mallinfo, (void), hak_mallinfo)
HK_REPLACES_IN_GLIBC(int, __libc_mallopt, (int parameter, int value), hak_mallopt)
