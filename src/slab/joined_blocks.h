/* A joined block serves a request of a larger class. It consists of 2 to 512 adjacent blocks of a slab. They are called its cells. Blocks are joined
 * in slabs whose class the program requests less than before, because free blocks between live ones then stay unused, but resident. If block sizes
 * drift, blocks are also joined in new slabs of 16-byte blocks, because the free cells of such a slab can be joined for every size.
 *
 *   joined bits   . . x x . . x . .     A joined block of three cells begins at block 1, and a joined block of two cells begins at block 5.
 *
 * Owns       This file owns the joined bits of slabs, and sets whether a slab's page map entries are mixed.
 * Invariant  If the joined bit of a cell is set, the cell belongs to a live joined block that begins at a lower address. The joined bits of a live
 *            joined block do not change. The page map entries of a slab with joined blocks are mixed. Therefore every free in the slab takes the slow
 *            path, which gets the block's size from hk_joined_bytes(). The slab's plain extent is 0, so each free is checked.
 * Threads    The slab's holder takes and frees joined blocks. The thread that has a block, and the report, may ask for its cells and bytes.
 * Never      No function touches the memory of the blocks. */
#pragma once

#include "slab/slab.h"

enum { HK_JOINED_MOST_CELLS = 512 };

/* Returns the number of cells of the block that begins at block `index` of the slab. Returns 1 if the block is not joined. */
unsigned hk_joined_cells(const struct hk_slab *slab, size_t index);
/* Returns the size of a block in a slab that holds joined blocks. */
size_t hk_joined_bytes(const void *block);
/* Returns the index of the first joined block from `at` on, and sets *cells to the number of its cells. Returns slab->d.blocks if there is none. */
unsigned hk_joined_next(const struct hk_slab *slab, unsigned at, unsigned *cells);
/* Counts the slab's joined bits again. Called by hk_slab_recount(). The caller of that function then writes the page map entries. */
void hk_joined_recount(struct hk_slab *slab);
/* Splits the joined blocks whose first cells are in `bits`, a set of blocks of a bitmap word. Frees their other cells. The caller frees the blocks in
 * `bits`. Returns the number of freed cells. Ends the program if a block in `bits` is a cell of a joined block, but not its first cell. */
unsigned hk_joined_part(struct hk_slab *slab, unsigned word, uint64_t bits);
/* Allocates up to n joined blocks of `cells` cells, the lowest first, in front of `end`. Returns their number, which is 0 if memory is refused. */
unsigned hk_joined_take(struct hk_slab *slab, unsigned cells, void **end, unsigned n);
