/* Report: collects the figures about the process and its heap, and writes them as text, JSON or OpenMetrics.
 *
 *   hk_report_open -> hk_report_take -> text, JSON or OpenMetrics -> hk_report_close
 *
 * Owns     This file owns the memory of a report, because a report is too large for the stacks of some threads.
 * Threads  Any thread may call the functions. They allocate nothing from the heap. */
#ifndef HK_REPORT_H
#define HK_REPORT_H

#include "prof/sites.h"
#include "report/rss_stats.h"

/* The kernel's figures for this process. A figure is 0 if it is unreadable, and SIZE_MAX if a limit is absent. */
struct hk_process {
    int id, parent;
    char command[24]; /* the name of the process in the kernel; empty if unreadable */
    size_t virtual_bytes, resident_bytes, address_limit, data_limit;
    uint64_t running_ms; /* time since HAKMEM started */
};

/* Reads the virtual and the resident size from /proc/self/statm. The kernel updates the resident size late, so some hundred KiB may be missing. */
void hk_read_statm(struct hk_process *process);

enum { HK_REPORT_SITES = 20 };

struct hk_report {
    struct hk_process process;
    struct hk_heap_stats heap_stats;
    struct hk_rss_stats rss_stats;
    struct hk_site_line sites[HK_REPORT_SITES]; /* sorted by live bytes; empty without site rules */
    unsigned sites_shown;
    struct hk_live_samples live_samples; /* empty without sampling */
};

/* Returns memory for a report: static memory or, if another thread uses the static memory, a new mapping. Returns NULL if the mapping is refused. */
struct hk_report *hk_report_open(void);
void hk_report_close(struct hk_report *report);
/* Releases the static memory in a fork child, because the thread that used it may not exist in the child. */
void hk_report_fork_child(void);

void hk_report_take(struct hk_report *report, uint64_t started_ms);

void hk_report_text(int fd, const struct hk_report *report);
void hk_report_json(int fd, const struct hk_report *report);
void hk_report_metrics(int fd, const struct hk_report *report);
/* Prints the debug rings as lines of text. A signal handler may call the function, because it takes no lock, does not allocate and does not wait. */
void hk_last_events_write(int fd);

/* Prints one line about an allocation that failed. The function is called at most once per process. */
void hk_report_out_of_memory(size_t requested, uint64_t started_ms);

bool hk_ends_with(const char *text, const char *end);

/* Returns how many of HK_HIT_RATE_ONE blocks of the class were served without a miss. */
unsigned hk_hit_rate(const struct hk_class_stats *class_stats);
enum { HK_HIT_RATE_ONE = 10000 };

#endif
