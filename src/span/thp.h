/* Thp: may memory stand on transparent huge pages here, of the size of a chunk?
 *
 * Owns     the answer, asked of the system once, at the start: later the program may not be let read files.
 * Threads  any. */
#ifndef HK_THP_H
#define HK_THP_H

#include "base/base.h"

/* Called once. */
void hk_thp_init(void);
/* False where the system's mode is `never`, or its huge pages are of another size; true where it does not say. */
bool hk_thp_serves(void);

#endif
