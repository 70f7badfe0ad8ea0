/* Report: heap statistics and the RSS statistics as text, JSON or OpenMetrics.
 *
 *   hk_report_open -> hk_report_take -> text, JSON or OpenMetrics -> hk_report_close
 *
 * Owns     the memory of a report, which is too large for some threads' stacks.
 * Threads  any; allocates nothing from the heap. */
#ifndef HK_REPORT_H
#define HK_REPORT_H

#include "prof/sites.h"
#include "report/rss_stats.h"

/* The kernel's figures for this process; 0 if unreadable, SIZE_MAX for an absent limit. */
struct hk_process {
    int id, parent;
    char command[24]; /* as the kernel names the process; empty if unreadable */
    size_t virtual_bytes, resident_bytes, address_limit, data_limit;
    uint64_t running_ms; /* since HAKMEM started */
};

/* Sets the virtual and the resident size from /proc/self/statm. The resident size may lag by some hundred KiB, because the kernel adds it up from
 * counters of threads. */
void hk_read_statm(struct hk_process *process);

enum { HK_REPORT_SITES = 20 };

struct hk_report {
    struct hk_process process;
    struct hk_heap_stats heap_stats;
    struct hk_rss_stats rss_stats;
    struct hk_site_line sites[HK_REPORT_SITES]; /* by live bytes; empty without site rules */
    unsigned sites_shown;
    struct hk_live_samples live_samples; /* empty without sampling */
};

/* Returns memory for a report; NULL if another thread uses the static one and the system refuses more. */
struct hk_report *hk_report_open(void);
void hk_report_close(struct hk_report *report);
/* In a fork child: releases the static report, whose user may be gone. */
void hk_report_fork_child(void);

void hk_report_take(struct hk_report *report, uint64_t started_ms);

void hk_report_text(int fd, const struct hk_report *report);
void hk_report_json(int fd, const struct hk_report *report);
void hk_report_metrics(int fd, const struct hk_report *report);
/* Prints the debug rings as lines of text. Async-signal-safe: takes no lock, does not allocate, does not wait. */
void hk_last_events_write(int fd);

/* Prints the one-line report about the first allocation that failed. Once per process. */
void hk_report_out_of_memory(size_t requested, uint64_t started_ms);

bool hk_ends_with(const char *text, const char *end);

/* Calls without a miss, per ten thousand. */
unsigned hk_hit_rate(const struct hk_class_stats *class_stats);
enum { HK_HIT_RATE_ONE = 10000 };

#endif
