/* Heap lines: the heaps of the program's own that have the most physical memory.
 * Owns     nothing but the rows of a report.
 * Threads  any; takes each heap's lock for a moment. */
#ifndef HK_HEAP_LINES_H
#define HK_HEAP_LINES_H

#include "heaps/heaps.h"

enum { HK_REPORT_HEAPS = 32 };

/* Fills in the rows, the largest first. Returns their number. */
unsigned hk_heap_lines_take(struct hk_heap_figures lines[HK_REPORT_HEAPS]);

#endif
