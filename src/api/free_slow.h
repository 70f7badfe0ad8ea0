/* FreeSlow: frees before HAKMEM has started, frees of large blocks that are not the thread's, and all frees while hooks are on.
 * Threads  any. */
#ifndef HK_FREE_SLOW_H
#define HK_FREE_SLOW_H

#include "span/descriptor.h"

/* `call` names the function in the message about an invalid pointer; `entry` is the block's page map entry, `size`
 * what the program says it is, or HK_SIZE_UNKNOWN. */
void hk_free_slow(enum hk_call call, void *block, uint32_t entry, size_t size);

#endif
