/* Report: collects figures about the process and its heap, and writes them as text, JSON or OpenMetrics. A caller opens a report, takes the figures,
 * writes them, and closes the report.
 * Owns     This file owns the memory of a report, because a report is too large for the stacks of some threads.
 * Threads  Any thread may call the functions. They allocate nothing from the heap. */
#pragma once

#include "prof/sites.h"
#include "report/heap_stats.h"

/* Holds the kernel's figures for this process. A figure is 0 if it cannot be read. A limit is SIZE_MAX if there is none. */
struct hk_process {
    int id, parent;
    char command[24]; /* the kernel's name of the process; empty if it cannot be read */
    size_t virtual_bytes, resident_bytes, address_limit, data_limit;
    uint64_t running_ms; /* time since HAKMEM started */
};

/* Returns the resident bytes in /proc/self/statm. The kernel updates them late, so some hundred KiB may be missing. Sets the virtual bytes too. */
size_t hk_resident_now(size_t *virtual_bytes);

enum { HK_REPORT_SITES = 20 };

struct hk_report {
    struct hk_process process;
    struct hk_heap_stats heap_stats;
    struct hk_rss_stats rss_stats;
    struct hk_site_line sites[HK_REPORT_SITES]; /* the sites with the most live bytes; empty without site rules */
    unsigned sites_shown;
    struct hk_live_samples live_samples; /* empty without sampling */
};

/* Returns memory for a report: the static memory or, if another thread uses it, a new mapping. Returns NULL if the system refuses the mapping. */
struct hk_report *hk_report_open(void);
void hk_report_close(struct hk_report *report);
/* Releases the static memory in a fork child, because the thread that was using it may not exist in the child. */
void hk_report_fork_child(void);

void hk_report_take(struct hk_report *report, uint64_t started_ms);

void hk_report_text(int fd, const struct hk_report *report);
void hk_report_json(int fd, const struct hk_report *report);
void hk_report_metrics(int fd, const struct hk_report *report);
/* Prints the last events of each thread (the debug rings). A signal handler may call this function, because it neither locks, allocates nor waits. */
void hk_last_events_write(int fd);

/* Adds a limit after its name, or the word `none` if there is no limit. */
void hk_report_add_limit(struct hk_text *text, const char *name, size_t limit, const char *none);
/* Prints one line about the first allocation that is refused, if the option oom_report is on. Prints nothing about later ones. */
void hk_report_out_of_memory(size_t requested);

HK_INLINE bool hk_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Returns the share of the allocations of a class or a tier that found a block, from 0 to HK_HIT_RATE_ONE. Precondition: all are counted. */
unsigned hk_hit_rate(const struct hk_class_stats *class_stats);
enum { HK_HIT_RATE_ONE = 10000 };
