/* Empty: addresses for blocks of 0 bytes, which fault when they are touched.
 * Owns       1 MiB of addresses, 65536 blocks, and a bit for each: set while the program has the block.
 * Threads    any, without a lock. */
#ifndef HK_EMPTY_H
#define HK_EMPTY_H

#include "span/descriptor.h"

/* At the start. False if the system refuses memory. */
bool hk_empties_begin(void);

/* NULL if all are in use. */
void *hk_empty_alloc(void);
/* True if the address lies among them. */
bool hk_is_empty(const void *p);
/* Frees an address among them. Faulty if it is not in use. */
void hk_empty_free(enum hk_call call, const void *p);

#endif
