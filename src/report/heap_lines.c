#include "report/heap_lines.h"

#include "base/bits.h"

static unsigned insert_heap(struct hk_heap_figures *lines, unsigned count, const struct hk_heap_figures *line)
{
    unsigned at = count;
    for (; at > 0 && line->physical > lines[at - 1].physical; at--)
        if (at < HK_REPORT_HEAPS)
            lines[at] = lines[at - 1];
    if (at < HK_REPORT_HEAPS)
        lines[at] = *line;
    return (unsigned)hk_min(count + 1, HK_REPORT_HEAPS);
}

unsigned hk_heap_lines_take(struct hk_heap_figures lines[HK_REPORT_HEAPS])
{
    unsigned count = 0;
    for (uint32_t index = 0; index < hk_heaps_end(); index++) {
        struct hk_heap_figures line;
        if (hk_heaps_figures(hk_heap_by_index(index), &line))
            count = insert_heap(lines, count, &line);
    }
    return count;
}
