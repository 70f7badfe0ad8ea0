/* Report: what a census and the residence say, as text, as JSON or as OpenMetrics.
 *
 *   hk_report_open -> hk_report_take -> text, JSON or OpenMetrics -> hk_report_close
 *
 * Owns     the place where a report lies: some threads' stacks have no room for one.
 * Threads  any; allocates nothing from the heap. */
#ifndef HK_REPORT_H
#define HK_REPORT_H

#include "prof/sites.h"
#include "report/census.h"
#include "report/residence.h"

/* As the kernel accounts this process; 0 where it cannot be read, SIZE_MAX for limits that there are not. */
struct hk_process {
    int id;
    size_t virtual_bytes, resident_bytes;
    size_t address_limit, data_limit;
    uint64_t running_ms; /* since HAKMEM started */
};

enum { HK_REPORT_SITES = 20 };

struct hk_report {
    struct hk_process process;
    struct hk_census census;
    struct hk_residence residence;
    struct hk_site_line sites[HK_REPORT_SITES]; /* by live bytes; none where there are no site rules */
    unsigned sites_shown;
};

/* Room for one; NULL if another thread is at the one that there always is, and the system refuses memory for more. */
struct hk_report *hk_report_open(void);
void hk_report_close(struct hk_report *report);
/* In a fork child: whoever was at it has not come along. */
void hk_report_fork_child(void);

void hk_report_take(struct hk_report *report, uint64_t started_ms);

void hk_report_text(int fd, const struct hk_report *report);
void hk_report_json(int fd, const struct hk_report *report);
void hk_report_metrics(int fd, const struct hk_report *report);

/* The one line about memory that was refused. Once in a process. */
void hk_report_out_of_memory(size_t requested, uint64_t started_ms);

/* Calls without a miss, of ten thousand. */
unsigned hk_hit_rate(const struct hk_tallies *tallies);
enum { HK_HIT_RATE_ONE = 10000 };

#endif
