/* Address space: maps the memory by which the page heap grows.
 *
 *   In the window, each mapping begins where the last one ended: the system merges neighbors, and they are aligned for huge
 *   pages. If another mapping is in the way, the heap skips it; if the system does not let addresses be chosen, the heap
 *   grows anywhere.
 *
 * Owns     the end of the heap in the window.
 * Threads  the holder of the page heap's lock. */
#ifndef HK_ADDRESS_SPACE_H
#define HK_ADDRESS_SPACE_H

#include "base/base.h"

/* Called once, after hk_page_map_init(). */
void hk_address_space_init(void);

/* Maps `size` bytes, covered by the page map: slices of one chunk, or whole chunks. Returns the address; 0 if the system
 * refuses. */
uintptr_t hk_address_space_map(size_t size);
/* Maps [address, address + size) again, which was unmapped. False if the system refuses; *lost: another mapping lies
 * there. */
bool hk_address_space_map_again(uintptr_t address, size_t size, bool *lost);

#endif
