/* HeapProfile: writes the samples as text, in the format of pprof and jeprof ("heap_v2").
 * Each site's line holds the sampled blocks and bytes; readers scale them up by the mean in the first line.
 * Comments tell `hakmem leaks` the lifetimes of each site's freed blocks (spans of sample.h) and the births of the live ones, in ms:
 *
 *   # hakmem 1 began MS now MS        # site NUMBER freed SPAN:BLOCKS ...        # live SITE SIZE BORN
 *
 * Threads  any; concurrent allocations may be missing. */
#ifndef HK_HEAP_PROFILE_H
#define HK_HEAP_PROFILE_H

#include "base/base.h"

void hk_heap_profile_write(int fd);

#endif
