/* Uses the page map to find the block that contains an address. Remembers the bounds of large blocks in a table of memos. */
#include "guard/bounds.h"
#include "large/large.h"
#include "slab/joined_blocks.h"

/* Holds the extent of a large block or gap. An address's chunk selects the memo. Readers take no lock: xturn is odd during a write (a seqlock). */
struct memo {
    _Atomic uint32_t xturn;
    _Atomic uint32_t xuse;     /* enum hk_large_use */
    _Atomic uint64_t xversion; /* hk_large.xversion at the write; the memo is right while xversion is unchanged */
    _Atomic uintptr_t xstart;
    _Atomic size_t xsize;
} HK_ALIGNED(32);

enum { MEMOS = 64 };
static struct memo memos[MEMOS] HK_COLD_DATA;

static struct memo *memo_of(uintptr_t address)
{
    uint64_t chunk = address >> HK_CHUNK_SHIFT;
    return &memos[(chunk ^ chunk >> 6) % MEMOS];
}

static void write_memo(struct memo *memo, const struct hk_large_extent *extent)
{
    uint32_t turn = hk_load(memo->xturn);
    if (turn % 2 != 0 || !hk_replace(memo->xturn, &turn, turn + 1, memory_order_acquire))
        return;
    HK_FENCE(memory_order_release);
    hk_store(memo->xuse, (uint32_t)extent->use);
    hk_store(memo->xversion, extent->version);
    hk_store(memo->xstart, extent->start);
    hk_store(memo->xsize, extent->size);
    hk_store_release(memo->xturn, turn + 2);
}

static bool read_memo(const struct memo *memo, uintptr_t address, struct hk_large_extent *extent)
{
    uint32_t turn = hk_load_acquire(memo->xturn);
    *extent = (struct hk_large_extent){(enum hk_large_use)hk_load(memo->xuse), hk_load(memo->xstart),
                                       hk_load(memo->xsize), hk_load(memo->xversion)};
    HK_FENCE(memory_order_acquire);
    return turn % 2 == 0 && hk_load(memo->xturn) == turn && extent->version == hk_load_acquire(hk_large.xversion) &&
           address - extent->start < extent->size;
}

size_t hk_bounds_remembered(uintptr_t address)
{
    struct hk_large_extent extent;
    if (address - hk_window.base < hk_window.covered || !read_memo(memo_of(address), address, &extent))
        return 0;
    bool in_use = extent.use == HK_LARGE_IN_USE;
    uintptr_t end = extent.start + (in_use ? hk_bounds_usable(extent.start, extent.size) : extent.size);
    return address < end ? end - address : 0;
}

/* Returns true if the page heap owns the slice of an address. Precondition: no slab has the slice. Therefore an owned slice is free memory. */
static bool is_free_slice(uintptr_t address)
{
    uintptr_t first = hk_window_first(), place = address - hk_window.base;
    if (first == 0 || address < first || place >= HK_LOAD_SETTLED(hk_window.flat))
        return false;
    uint32_t owned = __atomic_load_n(&hk_page_map_chunk(address)->owned, __ATOMIC_RELAXED);
    return (owned >> ((address >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES) & 1) != 0;
}

static struct hk_bounds outside_slabs(uintptr_t address)
{
    static const enum hk_bounds_kind kinds[] = {HK_BOUNDS_UNKNOWN, HK_BOUNDS_BLOCK, HK_BOUNDS_FREE};
    struct hk_large_extent extent;
    if (is_free_slice(address))
        return (struct hk_bounds){HK_BOUNDS_FREE, address, 0};
    bool beyond = address >= hk_load(hk_large.xhighest) || address < hk_load(hk_large.xlowest);
    bool known = !beyond && read_memo(memo_of(address), address, &extent);
    if (beyond || (!known && !hk_large_find(address, &extent)))
        return (struct hk_bounds){HK_BOUNDS_UNKNOWN, address, 0};
    if (!known && extent.use != HK_LARGE_FREED)
        write_memo(memo_of(address), &extent);
    return (struct hk_bounds){kinds[extent.use], extent.start, extent.size};
}

static struct hk_bounds in_slab(const struct hk_slab *slab, uintptr_t address)
{
    size_t index = hk_slab_index(slab, address);
    if (index >= slab->d.blocks)
        return (struct hk_bounds){HK_BOUNDS_FREE, address, 0};
    while (index > 0 && hk_slab_joins(slab, index))
        index--;
    size_t size = (size_t)slab->d.block_size * hk_joined_cells(slab, index);
    uintptr_t start = slab->d.start + index * slab->d.block_size;
    return (struct hk_bounds){hk_bounds_is_free(slab, index) ? HK_BOUNDS_FREE : HK_BOUNDS_BLOCK, start, size};
}

struct hk_bounds hk_block_bounds(uintptr_t address)
{
    uint32_t entry = hk_page_map_lookup(address);
    bool in_one = entry != 0 && hk_entry_class(entry) != HK_CLASS_LARGE;
    if (in_one && hk_entry_is_heap(entry)) /* the sizes of a user heap's small blocks are not known here */
        return (struct hk_bounds){HK_BOUNDS_UNKNOWN, address, 0};
    struct hk_bounds bounds = in_one ? in_slab(hk_slab_at(address), address) : outside_slabs(address);
    if (bounds.kind == HK_BOUNDS_BLOCK)
        bounds.size = hk_bounds_usable(bounds.start, bounds.size);
    return bounds;
}

bool hk_bounds_is_withheld(uintptr_t block)
{
    const hk_state_byte *state = hk_state_at(block);
    return state != NULL && (hk_load_acquire(*state) & ~HK_STATE_FREE) == 0;
}
