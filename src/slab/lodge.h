/* Lodge: blocks of several of a slab's blocks, for larger sizes than its own, where those that ask for that size grow fewer: its free
 * blocks lie scattered between taken ones, and their pages cannot go back.
 *
 *   joined bits   . . x x . . x . .     block 1 goes on for three, block 5 for two
 *
 * Owns       the joined bits of the slabs that take lodgers, and which page map entry these have.
 * Invariant  a block whose joined bit is set is taken, and goes with the one before it: given back with it, never alone. The joined
 *            bits of a lodger do not change while it is taken. As long as lodgers are in a slab its page map entry is mixed: no free in
 *            it is a hit, and who asks how large a block is asks here; and its plain extent is 0: no block comes back unasked.
 * Threads    to take and give: the slab's holder. cells, bytes: whoever has the block.
 * Never      touches the blocks. */
#ifndef HK_LODGE_H
#define HK_LODGE_H

#include "slab/slab.h"

enum { HK_LODGE_MOST_CELLS = 16 };

/* Does the block go with the one before it? */
HK_INLINE bool hk_lodge_joins(const struct hk_slab *slab, size_t index)
{
    const _Atomic uint64_t *joined = hk_load_acquire(slab->xjoined);
    return joined != NULL && index < slab->blocks && (hk_load(joined[index / 64]) >> (index % 64) & 1) != 0;
}

/* How many blocks of the slab the block at `index` consists of. */
HK_INLINE unsigned hk_lodge_cells(const struct hk_slab *slab, size_t index)
{
    unsigned cells = 1;
    while (hk_lodge_joins(slab, index + cells))
        cells++;
    return cells;
}

/* Of a block in a slab that takes lodgers. Bytes, and the largest class that it can serve as. */
size_t hk_lodge_bytes(const void *block);
unsigned hk_lodge_class(const void *block);

/* The first lodger from block `at` on, and its size in blocks; the slab's number of blocks if there is none. For the report. */
unsigned hk_lodge_next(const struct hk_slab *slab, unsigned at, unsigned *cells);

/* The slab is being released. */
void hk_lodge_end(struct hk_slab *slab);
/* See hk_slab_recount. Its page map entry is still to be written. */
void hk_lodge_recount(struct hk_slab *slab);

/* For who makes blocks of one word free: before, the blocks that go with them become so. Their number. Fatal if one of them goes with
 * another itself. */
unsigned hk_lodge_part(struct hk_slab *slab, unsigned word, uint64_t bits);

/* Moves up to n blocks of so many cells out, the lowest first; they end at `end`. 0 also where there is no memory for the bits. */
unsigned hk_lodge_take(struct hk_slab *slab, unsigned cells, void **end, unsigned n);

#endif
