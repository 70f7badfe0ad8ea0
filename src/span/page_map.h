/* Page map: leads from any address to its page map entry and its chunk.
 *
 *   page map entries:  one word for each slice, read by every free: mixed << 31 | owner << 12 | class * 32 (see descriptor.h)
 *   chunks:            one struct for each 2 MiB, with the state of 32 slices (see page_heap.h), and a pointer to the descriptor of each slice
 *   marks:             one byte for each KiB of the window; tells whether a medium block begins there (see slab/slab.h)
 *
 * The window is a range of addresses that HAKMEM chooses for the heap. The tables of the window are flat arrays, which are mapped as the heap
 * grows. A look-up in the window is one subtraction and one compare. Large blocks, and heap memory outside the window, have tables in other
 * places. A root leads to these tables: the upper bits of an address (address >> 38) select a branch, and the next bits select a leaf of 1 GiB.
 * Owns       This file owns the tables, the root, and the place and the covered part of the window.
 * Invariant  A page map entry of 0 means that the slice is not HAKMEM's. An address is covered if tables are mapped for it. A covered address
 *            stays covered. Once the window covers an address, the base of the window never changes.
 * Threads    Any thread may read. The holder of a slice writes its entry and descriptor pointer. Any thread may call hk_page_map_cover(). */
#pragma once

#include "base/bits.h"
#include "base/list.h"

enum { HK_SLICE_SHIFT = 16, HK_CHUNK_SHIFT = 21, HK_LEAF_SHIFT = 30, HK_BRANCH_SHIFT = 38 };
enum {
    HK_ADDRESS_BITS = HK_USER_ADDRESS_BITS,
    HK_CHUNK_SLICES = 1 << (HK_CHUNK_SHIFT - HK_SLICE_SHIFT),
    HK_LEAF_SLICES = 1 << (HK_LEAF_SHIFT - HK_SLICE_SHIFT),
    HK_LEAF_CHUNKS = 1 << (HK_LEAF_SHIFT - HK_CHUNK_SHIFT),
    HK_BRANCH_LEAVES = 1 << (HK_BRANCH_SHIFT - HK_LEAF_SHIFT),
    HK_BRANCHES = 1 << (HK_ADDRESS_BITS - HK_BRANCH_SHIFT),
    HK_ENTRY_OWNER_SHIFT = 12,
    HK_MARK_SHIFT = 10, /* the 64 marks of a slice fill a cache line, so that adjacent slabs share no line */
};
#define HK_SLICE ((size_t)1 << HK_SLICE_SHIFT)
#define HK_CHUNK ((size_t)1 << HK_CHUNK_SHIFT)
#define HK_LEAF ((size_t)1 << HK_LEAF_SHIFT)
#define HK_ENTRY_CLASS_MASK (((uint32_t)1 << HK_ENTRY_OWNER_SHIFT) - 1)

struct hk_descriptor;

/* The expected use of a span. The program will touch all pages of a dense span, but maybe only a few pages of a sparse span. The use is unsure if it
 * is not known which of the two applies. An unsure span lies in a dense chunk, unless such spans already fill a certain share of the dense chunks. A
 * growing span is dense, and its class has filled so many spans that the heap may make the span's pages resident before the program touches them. */
enum { HK_TOUCHED_WHOLE = 4608 }; /* bytes; the program may touch only the first pages of a larger block */
enum hk_use { HK_USE_DENSE, HK_USE_SPARSE, HK_USES, HK_USE_UNSURE = HK_USES, HK_USE_GROWING };

/* The state of a chunk of 2 MiB. A page of 4 KiB holds eight of these structs. */
struct hk_chunk {
    /* The descriptor of each slice, written by the holder of the slice. This field is first, because a look-up then takes one instruction less. */
    _Atomic(struct hk_descriptor *) xdescriptor[HK_CHUNK_SLICES];
    _Atomic(_Atomic uint8_t *) xstates; /* state bytes of the blocks (guard/states.h), set once; NULL if none */
    /* constant */
    uintptr_t start;
    /* under the page heap's lock; in a set of slices, bit i stands for slice i */
    uint32_t owned;    /* slices that are HAKMEM's */
    uint32_t free;     /* owned slices that belong to no span */
    uint32_t dirty;    /* slices that may be resident, in use or free */
    uint32_t aged;     /* free dirty slices that the last purge saw; the next purge purges them */
    uint32_t purged;   /* free slices whose pages were purged */
    uint32_t unmapped; /* slices that HAKMEM unmapped, and may map again */
    uint32_t staked;   /* slices of unsure spans, if the chunk is dense */
    uint32_t fresh;    /* free slices that HAKMEM or a huge page made resident, and that were never used */
    uint8_t hollow[HK_CHUNK_SLICES]; /* how many pages of a slice were already purged when it became free and dirty */
    uint16_t longest;                /* length of the longest run of free slices; 0 if the chunk is on no list by_run */
    uint8_t use;                     /* enum hk_use */
    _Atomic bool xhuge;  /* true if the chunk is or will be on a huge page; set only while all slices are free */
    uint64_t idle_since; /* time from which the purge delay counts */
    uint64_t freed_at;   /* time of the last free of a slice */
    struct hk_link by_run;
    struct hk_link by_age;  /* linked while the chunk has free slices that are dirty */
    struct hk_link by_hole; /* linked while the chunk has unmapped slices */
} HK_ALIGNED(512);
_Static_assert(sizeof(struct hk_chunk) == 512, "no chunk crosses a page");

struct hk_leaf {
    _Atomic(_Atomic uint32_t *) xentries; /* page map entries of the leaf; NULL if the root leads to none */
    struct hk_chunk *chunks;              /* chunk structs of the leaf; set before xentries */
};

struct hk_branch {
    struct hk_leaf leaves[HK_BRANCH_LEAVES];
};

/* Describes the window, and is read by every free. The window covers no address until hk_page_map_init() is called. */
struct hk_window {
    uintptr_t base;            /* start of the window; constant once `covered` is not 0 */
    size_t hits;               /* number of bytes from `base` on in which the hit path may free: `covered` or 0 */
    _Atomic uint32_t *entries; /* array of page map entries, from the slice at `base` on */
    uintptr_t self; /* with HK_PAIRS, offset of hk_self from the thread pointer; constant once `hits` is not 0 */
    size_t covered; /* number of bytes from `base` on that have readable entries; only grows */
    struct hk_chunk *chunks; /* array of chunk structs, from the chunk at `base` on */
    size_t flat;             /* number of bytes from `base` on that have readable chunks; at most `covered` */
    size_t marked;           /* number of bytes from `base` on in which the heap has writable marks; only grows */
    _Atomic uint8_t *marks;  /* the mark of `base`; the marks of higher addresses lie at lower addresses */
} HK_ALIGNED(HK_NEAR_ALIGN);

extern struct hk_window hk_window __attribute__((visibility("hidden")));
extern _Atomic(struct hk_branch *) hk_page_map_root[HK_BRANCHES] __attribute__((visibility("hidden")));
/* Chooses the window and maps its first tables. Called once, before all other functions here. Returns false if the system refuses memory. */
bool hk_page_map_init(void);
/* If `hits`, lets the hit path free blocks in the window from now on, and lets blocks have marks. */
void hk_window_open(bool hits);
/* Returns the first address of the heap in the window, or 0 if the system chooses all addresses. */
uintptr_t hk_window_first(void);

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
/* Returns the chunk that contains an address. The address must be covered. */
HK_INLINE struct hk_chunk *hk_page_map_chunk(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_LIKELY(place < HK_LOAD_SETTLED(hk_window.flat)))
        return &HK_LOAD_SETTLED(hk_window.chunks)[place >> HK_CHUNK_SHIFT];
    return &hk_page_map_leaf(address)->chunks[(address >> HK_CHUNK_SHIFT) % HK_LEAF_CHUNKS];
}
/* Returns true if a mark is mapped for the KiB that contains the address, and sets *mark to the place of the mark. */
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

/* Maps tables for [address, address + size). Returns false if the range goes beyond the addresses of user space, or if the system refuses memory. */
bool hk_page_map_cover(uintptr_t address, size_t size);
/* Covers the first `size` bytes of a new mapping p. If this fails, unmaps the whole mapping. Returns p, or NULL if p is NULL or was unmapped. */
void *hk_page_map_covered(void *p, size_t mapped, size_t size);
/* Covers one address. If the system refuses memory, places the tables into the HK_PAGE_MAP_TABLE bytes at *table, and sets *table to NULL. */
#define HK_PAGE_MAP_TABLE (6 * HK_SLICE)
bool hk_page_map_cover_with(uintptr_t address, void **table);
/* Returns true if the window covers the range, so that the hit path may free blocks there once the window is open. */
bool hk_page_map_is_flat(uintptr_t address, size_t size);
/* Writes the descriptor of each slice, and then the page map entries. Therefore a thread that reads the entry finds the descriptor. */
void hk_page_map_assign(uintptr_t address, size_t slices, uint32_t entry, struct hk_descriptor *descriptor);
void hk_page_map_set(uintptr_t address, size_t slices, uint32_t entry);
/* Maps the marks of an address range of the heap. If the system refuses once, no more marks are mapped. hk_page_map_has_mark() returns false for
 * blocks without a mark. Such blocks are checked by the bitmap of their slab (slab/slab.h). */
void hk_page_map_cover_marks(uintptr_t address, size_t size);
size_t hk_page_map_tables(void);
/* Returns the first range of tables in [from, to), or an empty range at `to` if there is none. */
struct hk_range hk_page_map_next_table(uintptr_t from, uintptr_t to);
/* Returns the first covered address from `address` on, or UINTPTR_MAX if there is none. The chunk of the returned address may be read. */
uintptr_t hk_page_map_next_covered(uintptr_t address);
