/* Smaps: what the kernel says of each mapping of this process, read as a stream.
 * Threads  any; allocates nothing. A mapping that comes or goes meanwhile may be missed or told as it was. */
#ifndef HK_SMAPS_H
#define HK_SMAPS_H

#include "base/base.h"

struct hk_mapping {
    uintptr_t start, end;
    size_t resident; /* bytes */
};

/* Visits all mappings, lowest first; false if they cannot be read. */
bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context);

#endif
