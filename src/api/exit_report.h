/* ExitReport: when a report is written, and where to.
 * Threads  any. */
#ifndef HK_EXIT_REPORT_H
#define HK_EXIT_REPORT_H

#include "base/base.h"

/* The report that HAKMEM_REPORT asked for, if it did. */
void hk_exit_report(void);

/* The one line about the first refusal; later ones are silent. */
void hk_first_refusal_report(size_t asked);

#endif
