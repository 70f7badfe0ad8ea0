/* Thp: whether the system offers transparent huge pages of the size of a chunk.
 *
 * Owns     the answer, read once at start: later a sandbox may forbid the program to read files.
 * Threads  any. */
#ifndef HK_THP_H
#define HK_THP_H

#include "base/base.h"

/* Called once. */
void hk_thp_init(void);
/* False if the system's mode is `never` or its huge pages have another size; true if the files cannot be read. */
bool hk_thp_serves(void);

#endif
