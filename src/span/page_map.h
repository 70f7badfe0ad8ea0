/* Page map: leads from any address to its page map entry and its chunk.
 *
 *   page map entries:  mixed << 31 | owner << 12 | class * 32; one word for each slice, read by every free
 *   chunks:            one for each 2 MiB; holds the state of its 32 slices (see page_heap.h), and the descriptor of each slice
 *
 *   The window is a range of addresses that HAKMEM chooses for the heap. Its page map entries and chunks are flat arrays, which are mapped
 *   as the heap grows. A look-up in the window is one subtraction and one compare. For all other addresses (large blocks, a heap outside
 *   the window), a root leads to the tables: address >> 38 -> branch, >> 30 -> leaf of 1 GiB.
 *
 *   marks:             one byte for each KiB of the window, mapped up to the last slab of medium blocks in the window (see slab/slab.h)
 *
 * Owns       This file owns the tables, the root, and the place and the covered part of the window.
 * Invariant  A page map entry of 0 means that the slice is not HAKMEM's. A covered address stays covered. Once the window covers an address, the base
 *            of the window never changes.
 * Threads    Any thread may read. The holder of a slice writes the words of the slice. Any thread may call cover, which takes a lock. */
#ifndef HK_PAGE_MAP_H
#define HK_PAGE_MAP_H

#include "base/bits.h"
#include "base/list.h"

enum {
    HK_SLICE_SHIFT = 16,
    HK_CHUNK_SHIFT = 21,
    HK_LEAF_SHIFT = 30,
    HK_BRANCH_SHIFT = 38,
    HK_ADDRESS_BITS = HK_USER_ADDRESS_BITS,
    HK_CHUNK_SLICES = 1 << (HK_CHUNK_SHIFT - HK_SLICE_SHIFT),
    HK_LEAF_SLICES = 1 << (HK_LEAF_SHIFT - HK_SLICE_SHIFT),
    HK_LEAF_CHUNKS = 1 << (HK_LEAF_SHIFT - HK_CHUNK_SHIFT),
    HK_BRANCH_LEAVES = 1 << (HK_BRANCH_SHIFT - HK_LEAF_SHIFT),
    HK_BRANCHES = 1 << (HK_ADDRESS_BITS - HK_BRANCH_SHIFT),
    HK_ENTRY_OWNER_SHIFT = 12,
    HK_MARK_SHIFT = 10, /* the marks of a slice fill a cache line, so that threads with adjacent slabs share no line */
};
#define HK_SLICE ((size_t)1 << HK_SLICE_SHIFT)
#define HK_CHUNK ((size_t)1 << HK_CHUNK_SHIFT)
#define HK_LEAF ((size_t)1 << HK_LEAF_SHIFT)
#define HK_ENTRY_CLASS_MASK (((uint32_t)1 << HK_ENTRY_OWNER_SHIFT) - 1)

struct hk_descriptor;

/* The program will touch all pages of a dense span, but maybe only a few pages of a sparse span. A span is unsure if it is not known which of the two
 * it will be. Unsure spans lie in dense chunks as long as unsure spans are a small part of these chunks. A growing span is dense, and its class has
 * filled so many spans that the heap may make its pages resident before the program touches them. */
enum hk_use { HK_USE_DENSE, HK_USE_SPARSE, HK_USES, HK_USE_UNSURE = HK_USES, HK_USE_GROWING };

/* Holds the state of a chunk of 2 MiB. A page of memory holds eight of these structs. */
struct hk_chunk {
    /* The holder of a slice writes the slice's descriptor. This field is first, because a look-up then takes one instruction less. */
    _Atomic(struct hk_descriptor *) xdescriptor[HK_CHUNK_SLICES];
    _Atomic(_Atomic uint8_t *) xstates; /* the guard's states, set once (guard/states.h); NULL: none */
    /* constant */
    uintptr_t start;
    /* under the page heap's lock */
    uint32_t owned;    /* slices that are HAKMEM's */
    uint32_t free;     /* owned slices that belong to no span */
    uint32_t dirty;    /* slices that may be resident, in use or free */
    uint32_t aged;     /* free and dirty slices that one purge has seen; the next purge takes them */
    uint32_t purged;   /* free slices whose pages were purged */
    uint32_t unmapped; /* slices that HAKMEM unmapped, and may map again */
    uint32_t staked;   /* slices of unsure spans in a dense chunk */
    uint32_t fresh;    /* free slices that HAKMEM or a huge page made resident, and that were never used */
    uint8_t hollow[HK_CHUNK_SLICES]; /* pages of each free and dirty slice that were purged before its free */
    uint16_t longest;                /* length of the longest run of free slices; 0: the chunk is on no list by_run */
    uint8_t use;                     /* enum hk_use */
    _Atomic bool xhuge;  /* the chunk stands on a huge page, or will when touched; becomes true only if all free */
    uint64_t idle_since; /* time from which the purge delay counts */
    uint64_t freed_at;   /* time of the last free of a slice */
    struct hk_link by_run;
    struct hk_link by_age;  /* linked while the chunk has free slices that are dirty */
    struct hk_link by_hole; /* linked while the chunk has unmapped slices */
} HK_ALIGNED(512);
_Static_assert(sizeof(struct hk_chunk) == 512, "no chunk crosses a page");

struct hk_leaf {
    _Atomic(_Atomic uint32_t *) xentries; /* NULL: no address of the leaf is HAKMEM's */
    struct hk_chunk *chunks;              /* set before xentries; in the window, only covered chunks may be read */
};

struct hk_branch {
    struct hk_leaf leaves[HK_BRANCH_LEAVES];
};

/* Every free reads the window. The window covers no address until hk_page_map_init() is called. */
struct hk_window {
    uintptr_t base;            /* constant once `covered` is not 0 */
    size_t hits;               /* equal to `covered`, or 0 if frees must not be hits */
    _Atomic uint32_t *entries; /* page map entries of the slice at `base` and of those that follow */
    uintptr_t self; /* with HK_PAIRS, the distance of hk_self from the thread pointer; constant once `hits` is not 0 */
    size_t covered; /* number of bytes from `base` on that have readable entries; only grows */
    struct hk_chunk *chunks; /* chunks, from the one at `base` on */
    size_t flat;             /* number of bytes from `base` on that have readable chunks; at most `covered` */
    size_t marked;           /* number of bytes from `base` on whose heap part has writable marks; only grows */
    _Atomic uint8_t *marks;  /* the mark of `base`; the marks of higher addresses lie at lower addresses */
} HK_ALIGNED(HK_NEAR_ALIGN);

extern struct hk_window hk_window __attribute__((visibility("hidden")));
extern _Atomic(struct hk_branch *) hk_page_map_root[HK_BRANCHES] __attribute__((visibility("hidden")));
/* Chooses the window and maps its first table. Called once, before all other functions of the page map. Returns false if the system refuses
 * memory. */
bool hk_page_map_init(void);
/* If `hits`, frees may be hits from now on, and blocks may have marks. */
void hk_window_open(bool hits);
/* Returns the first address of the heap in the window, or 0 if the system chooses all addresses. */
uintptr_t hk_window_first(void);

/* Returns the leaf of the page map that has the entry of the address, or NULL if this leaf was never mapped. */
HK_INLINE struct hk_leaf *hk_page_map_leaf(uintptr_t address)
{
    struct hk_branch *branch =
        address >> HK_ADDRESS_BITS == 0 ? hk_load_acquire(hk_page_map_root[address >> HK_BRANCH_SHIFT]) : NULL;
    return branch != NULL ? &branch->leaves[(address >> HK_LEAF_SHIFT) % HK_BRANCH_LEAVES] : NULL;
}
HK_INLINE _Atomic uint32_t *hk_page_map_entry_by_root(uintptr_t address)
{
    struct hk_leaf *leaf = hk_page_map_leaf(address);
    _Atomic uint32_t *entries = leaf != NULL ? hk_load_acquire(leaf->xentries) : NULL;
    return entries != NULL ? &entries[(address >> HK_SLICE_SHIFT) % HK_LEAF_SLICES] : NULL;
}
/* Returns the place of an address's page map entry, or NULL if the address is not covered. */
HK_INLINE _Atomic uint32_t *hk_page_map_entry(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_LIKELY(place < HK_LOAD_SETTLED(hk_window.covered)))
        return &HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT];
    return hk_page_map_entry_by_root(address);
}
/* Returns the chunk of an address, which must be covered. */
HK_INLINE struct hk_chunk *hk_page_map_chunk(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_LIKELY(place < HK_LOAD_SETTLED(hk_window.flat)))
        return &HK_LOAD_SETTLED(hk_window.chunks)[place >> HK_CHUNK_SHIFT];
    return &hk_page_map_leaf(address)->chunks[(address >> HK_CHUNK_SHIFT) % HK_LEAF_CHUNKS];
}
/* Returns true if the KiB that contains the address has a mark, and sets *mark to the place of the mark. */
HK_INLINE bool hk_page_map_has_mark(uintptr_t address, _Atomic uint8_t **mark)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.marked)))
        return false;
    HK_READ_NO_EARLIER();
    *mark = HK_LOAD_SETTLED(hk_window.marks) - (place >> HK_MARK_SHIFT);
    return true;
}
HK_INLINE _Atomic(struct hk_descriptor *) *hk_page_map_descriptor(uintptr_t address)
{
    return &hk_page_map_chunk(address)->xdescriptor[(address >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES];
}
/* Returns the page map entry of any address, or 0 if the address is not HAKMEM's. */
HK_INLINE uint32_t hk_page_map_lookup(uintptr_t address)
{
    _Atomic uint32_t *entry = hk_page_map_entry(address);
    return HK_LIKELY(entry != NULL) ? hk_load_acquire(*entry) : 0;
}

/* Maps the tables for [address, address + size). Returns false if the range is no user address, or if the system refuses memory. */
bool hk_page_map_cover(uintptr_t address, size_t size);
/* Covers the first `size` bytes of a new mapping. If this is refused, unmaps the whole mapping. Returns p, or NULL if p is NULL or was unmapped. */
void *hk_page_map_covered(void *p, size_t mapped, size_t size);
/* Covers one address. If the system refuses memory, uses the HK_PAGE_MAP_TABLE bytes at *table as the tables, and sets *table to NULL. */
#define HK_PAGE_MAP_TABLE (6 * HK_SLICE)
bool hk_page_map_cover_with(uintptr_t address, void **table);
/* Returns true if the window's tables cover the range, so that frees there may be hits once the window is open. */
bool hk_page_map_is_flat(uintptr_t address, size_t size);
/* Writes the descriptor of each slice before its page map entry, so that a thread that reads the entry finds the descriptor. */
void hk_page_map_assign(uintptr_t address, size_t slices, uint32_t entry, struct hk_descriptor *descriptor);
void hk_page_map_set(uintptr_t address, size_t slices, uint32_t entry);
/* Maps the marks of an address range of the heap. If the system refuses once, no more marks are mapped. This is safe, because
 * hk_page_map_has_mark() tells a block without a mark from a block whose mark is cleared. */
void hk_page_map_cover_marks(uintptr_t address, size_t size);
size_t hk_page_map_tables(void);
/* Returns the first range of tables in [from, to), or an empty range at `to` if there is none. */
struct hk_range hk_page_map_next_table(uintptr_t from, uintptr_t to);
/* Returns the first covered address from `address` on, or UINTPTR_MAX if there is none. The chunk of the returned address may be read. */
uintptr_t hk_page_map_next_covered(uintptr_t address);

#endif
