/* Served: true if the process's malloc is HAKMEM's. The program, or a library before HAKMEM, may define its own.
 * Threads  any. */
#ifndef HK_SERVED_H
#define HK_SERVED_H

#include "base/base.h"

bool hk_process_is_served(void);

#endif
