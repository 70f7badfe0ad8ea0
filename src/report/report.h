/* Report: what a census says, as text or as JSON.
 * Threads  any; allocates nothing. */
#ifndef HK_REPORT_H
#define HK_REPORT_H

#include "report/census.h"

/* As the kernel accounts this process; 0 where it cannot be read. */
struct hk_process {
    int id;
    size_t virtual_bytes, resident_bytes;
};

void hk_report_text(int fd, const struct hk_census *census, const struct hk_process *process);
void hk_report_json(int fd, const struct hk_census *census, const struct hk_process *process);

/* The one line about memory that was refused; limit is SIZE_MAX if there is none. */
void hk_report_out_of_memory(size_t asked, size_t address_limit, const struct hk_process *process);

#endif
