/* Joined blocks: blocks for a larger class, each made of 2 to 16 adjacent free blocks of a slab whose own class is requested less than before.
 * The free blocks of such a slab lie between live ones, and their pages cannot be purged.
 *
 *   joined bits   . . x x . . x . .     the joined block at block 1 has three cells, the joined block at block 5 two
 *
 * Owns       the joined bits of slabs that hold joined blocks, and whether their page map entries are mixed.
 * Invariant  a block whose joined bit is set is live, and a part of the joined block before it, with which it is freed. The joined bits
 *            of a joined block do not change while it is live. While a slab holds joined blocks its page map entries are mixed, so no free in it is
 *            a hit, and the size of a block is read here. Its plain extent is 0, so each block freed in it is checked here.
 * Threads    take, free: the slab's holder. cells, bytes: the thread that has the block.
 * Never      touches the blocks. */
#ifndef HK_JOINED_BLOCKS_H
#define HK_JOINED_BLOCKS_H

#include "slab/slab.h"

enum { HK_JOINED_MOST_CELLS = 16 };

/* Returns the number of the slab's blocks of which the block at `index` consists. */
HK_INLINE unsigned hk_joined_cells(const struct hk_slab *slab, size_t index)
{
    unsigned cells = 1;
    while (hk_slab_joins(slab, index + cells))
        cells++;
    return cells;
}

/* hk_joined_bytes returns the size of a block in a slab that holds joined blocks. hk_joined_class returns the largest class for which it suffices. */
size_t hk_joined_bytes(const void *block);
unsigned hk_joined_class(const void *block);
/* Returns the first joined block from block `at` on, and sets *cells to its number of cells. Returns the slab's number of blocks if there is none. */
unsigned hk_joined_next(const struct hk_slab *slab, unsigned at, unsigned *cells);
/* Frees the joined bits of a slab that is being released. */
void hk_joined_end(struct hk_slab *slab);
/* Recounts the joined blocks for hk_slab_recount(). The caller writes the page map entries. */
void hk_joined_recount(struct hk_slab *slab);
/* Frees the cells of the joined blocks that begin at the blocks `bits` of a word, except their first cells, which the caller frees next. Returns the
 * number of cells freed. Ends the program if one of the blocks is a part of a joined block. */
unsigned hk_joined_part(struct hk_slab *slab, unsigned word, uint64_t bits);
/* Allocates up to n joined blocks of `cells` cells, the lowest first, and stores their addresses in front of `end`. Returns their number, which is 0
 * also if memory for the joined bits is refused. */
unsigned hk_joined_take(struct hk_slab *slab, unsigned cells, void **end, unsigned n);

#endif
