/* HeapProfile: the samples as text, in the form that pprof and jeprof read ("heap_v2").
 * Each site's line has the blocks and bytes that were picked; by the mean in the first line, readers reckon what they stand for.
 * Threads  any; what others allocate meanwhile may be in it or not. */
#ifndef HK_HEAP_PROFILE_H
#define HK_HEAP_PROFILE_H

#include "base/base.h"

void hk_heap_profile_write(int fd);

#endif
