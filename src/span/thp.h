/* Thp: whether the system offers transparent huge pages of the size of a chunk.
 *
 * Owns     the answer, read when a heap is first large enough for huge pages, or before the program enters a sandbox.
 * Threads  any; two that read at the same time read the same. */
#ifndef HK_THP_H
#define HK_THP_H

#include "base/base.h"

/* Reads the system's files. */
void hk_thp_look(void);
/* False if the system's mode is `never` or its huge pages have another size; true if the files cannot be read. */
bool hk_thp_serves(void);

#endif
