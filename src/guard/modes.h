/* Modes: HAKMEM_SAFE_FREE and HAKMEM_HARDENED as protections in force.
 * Threads  the start. */
#ifndef HK_MODES_H
#define HK_MODES_H

#include "guard/guard.h"

/* At the start, after the options are read and before the first mapping: puts in force what they ask for. */
void hk_guard_begin(void);

#endif
