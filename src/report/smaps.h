/* Smaps: the kernel's figures for each mapping of this process, read as a stream.
 * Threads  any; allocates nothing. A mapping that changes meanwhile may be missed or reported in its old state. */
#ifndef HK_SMAPS_H
#define HK_SMAPS_H

#include "base/base.h"

struct hk_mapping {
    uintptr_t start, end;
    size_t resident; /* bytes */
    uintptr_t inode; /* of the file that is mapped; 0: none */
};

/* Visits all mappings in ascending order; false if they cannot be read. */
bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context);

#endif
