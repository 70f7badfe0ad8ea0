/* Served: is HAKMEM what the rest of the process has for malloc? A program, or a library before HAKMEM, may have its own.
 * Threads  any. */
#ifndef HK_SERVED_H
#define HK_SERVED_H

#include "base/base.h"

bool hk_process_is_served(void);

#endif
