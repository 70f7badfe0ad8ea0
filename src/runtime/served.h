/* Served: true if the process's malloc is HAKMEM's. The program, or a library before HAKMEM, may define its own.
 * Threads  any. */
#ifndef HK_SERVED_H
#define HK_SERVED_H

#include "base/base.h"

bool hk_process_is_served(void);

/* True if the process's malloc is that of another copy of HAKMEM, as in a program that is linked with HAKMEM and preloaded too. Asks
 * by mallopt, which each allocator has, and allocates nothing. Once the loader has relocated the program. */
bool hk_process_is_served_by_another(void);
enum { HK_MALLOPT_WHO_SERVES = 0x48414b4d, HK_MALLOPT_HAKMEM = 0x4b4d };
/* The answer to that; 0 to a question of this copy. */
int hk_answer_who_serves(void);

#endif
