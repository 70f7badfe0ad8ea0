/* A joined block serves a larger class. It consists of 2 to 16 adjacent free blocks of a slab, its cells. Blocks are joined only if the program
 * requests the slab's own class less than before. The free blocks then lie between live ones, so their pages cannot be purged.
 *
 *   joined bits   . . x x . . x . .     the joined block at block 1 has three cells, the joined block at block 5 two
 *
 * Owns       This file owns the joined bits of slabs, and sets whether a slab's page map entries are mixed.
 * Invariant  If the joined bit of a cell is set, the cell belongs to a live joined block that begins at a lower address. The joined bits of a live
 *            joined block do not change. While a slab holds joined blocks, its page map entries are mixed. Then no free in the slab is a hit, and
 *            hk_joined_bytes() tells a block's size. The slab's plain extent is 0, so that hk_joined_free() checks each block that is freed in it.
 * Threads    The slab's holder takes and frees joined blocks. The thread that has a block may ask for its cells and bytes.
 * Never      No function touches the memory of the blocks. */
#ifndef HK_JOINED_BLOCKS_H
#define HK_JOINED_BLOCKS_H

#include "slab/slab.h"

enum { HK_JOINED_MOST_CELLS = 16 };

/* Returns how many cells the block at `index` has. The number is 1 if it is not a joined block. */
HK_INLINE unsigned hk_joined_cells(const struct hk_slab *slab, size_t index)
{
    unsigned cells = 1;
    while (hk_slab_joins(slab, index + cells))
        cells++;
    return cells;
}

/* hk_joined_bytes returns the size of a block in a slab that holds joined blocks. hk_joined_class returns the largest class of at most this size. */
size_t hk_joined_bytes(const void *block);
unsigned hk_joined_class(const void *block);
/* Returns the first joined block from block `at` on, and sets *cells to its cells. If none follows, returns the slab's number of blocks. */
unsigned hk_joined_next(const struct hk_slab *slab, unsigned at, unsigned *cells);
/* Frees the memory of the joined bits of a slab that is being released. */
void hk_joined_end(struct hk_slab *slab);
/* Counts the slab's joined blocks again, for hk_slab_recount(). The caller writes the page map entries. */
void hk_joined_recount(struct hk_slab *slab);
/* Frees all cells but the first of each joined block that begins at one of the blocks `bits` of a word. The caller then frees the first cells.
 * Returns the number of freed cells. Ends the program if one of the blocks `bits` is a later cell of a joined block. */
unsigned hk_joined_part(struct hk_slab *slab, unsigned word, uint64_t bits);
/* Allocates up to n joined blocks of `cells` cells, the lowest first, and stores their addresses in front of `end`. Returns their number. It is also
 * 0 if memory for the joined bits is refused. */
unsigned hk_joined_take(struct hk_slab *slab, unsigned cells, void **end, unsigned n);

#endif
