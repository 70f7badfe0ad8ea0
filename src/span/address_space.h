/* Growth: the addresses of what the heap grows by.
 *
 *   In the map's window, each piece where the one before it ended: neighbours are one mapping to the system, and aligned for huge
 *   pages. Where something of the program's lies in the way, further on; where the system does not let addresses be chosen, anywhere.
 *
 * Owns     how far the heap has come in the window.
 * Threads  the holder of the runs' lock. */
#ifndef HK_ADDRESS_SPACE_H
#define HK_ADDRESS_SPACE_H

#include "base/base.h"

/* Called once, after the map's. */
void hk_address_space_init(void);

/* Maps `size` bytes (a multiple of a unit, at most a chunk or a multiple of chunks), covered by the map, none across two chunks unless
 * it is aligned to them. Its address, 0 if the system refuses. */
uintptr_t hk_address_space_map(size_t size);
/* Maps [address, address + size), which was unmapped before, again. False if the system refuses; *lost: something else lies there. */
bool hk_address_space_map_again(uintptr_t address, size_t size, bool *lost);

#endif
