/* Map: whose address is this?
 *
 *   routes:  mixed << 31 | owner << 12 | class * 32   one word for each unit of 64 KiB, read by every free
 *   supers:  one for each 2 MiB: which of its 32 units are free (see runs.h), and whose slab each is
 *
 *   The window: a range of addresses of HAKMEM's own choosing, where the heap grows. Its routes lie side by side, and so do its supers;
 *   both are mapped as the heap grows: an address is looked up by one subtraction and one compare.
 *   Elsewhere (big blocks; a heap that the system will not have in the window; all, while the window is not open) by a root:
 *   address >> 38 -> branch, >> 30 -> leaf of 1 GiB.
 *
 * Owns       the tables, the root, the place and the covered part of the window.
 * Invariant  a route of 0 means: not HAKMEM's. What is covered stays covered; the window's base never changes once it is covered.
 * Threads    read: any. A unit's words are written by whoever holds the unit; cover: any (a lock of its own). */
#ifndef HK_MAP_H
#define HK_MAP_H

#include "base/list.h"
#include "os/os.h"

enum {
    HK_UNIT_SHIFT = 16,
    HK_SUPER_SHIFT = 21,
    HK_LEAF_SHIFT = 30,
    HK_BRANCH_SHIFT = 38,
    HK_ADDRESS_BITS = 47,
    HK_SUPER_UNITS = 1 << (HK_SUPER_SHIFT - HK_UNIT_SHIFT),
    HK_LEAF_UNITS = 1 << (HK_LEAF_SHIFT - HK_UNIT_SHIFT),
    HK_LEAF_SUPERS = 1 << (HK_LEAF_SHIFT - HK_SUPER_SHIFT),
    HK_BRANCH_LEAVES = 1 << (HK_BRANCH_SHIFT - HK_LEAF_SHIFT),
    HK_BRANCHES = 1 << (HK_ADDRESS_BITS - HK_BRANCH_SHIFT),
    HK_ROUTE_OWNER_SHIFT = 12,
};
#define HK_UNIT ((size_t)1 << HK_UNIT_SHIFT)
#define HK_SUPER ((size_t)1 << HK_SUPER_SHIFT)
#define HK_LEAF ((size_t)1 << HK_LEAF_SHIFT)
#define HK_ROUTE_CLASS_MASK (((uint32_t)1 << HK_ROUTE_OWNER_SHIFT) - 1)

struct hk_slab;

/* Eight to a page of the table. */
struct hk_super {
    /* written by the holder of the unit; first: to find it takes an instruction less */
    _Atomic(struct hk_slab *) xslab[HK_SUPER_UNITS];
    /* constant */
    uintptr_t start;
    /* under the runs' lock */
    uint32_t owned;   /* units that are HAKMEM's */
    uint32_t free;    /* of these, units that no slab uses */
    uint32_t dirty;   /* units that may hold pages */
    uint32_t aged;    /* free and dirty units that purge has passed by once */
    uint32_t purged;  /* free units whose pages were given back */
    uint32_t unmapped; /* units that were HAKMEM's */
    uint32_t staked;  /* units in use that may turn out sparse */
    uint32_t fresh;   /* free units that came with a huge page, and that nobody has used yet */
    uint8_t hollow[HK_SUPER_UNITS]; /* of a free and dirty unit: pages of it that were given back before it came free */
    uint16_t longest; /* the list that it is on: the longest run of free units */
    uint8_t use;      /* the kind of run that it serves */
    _Atomic bool xhuge; /* it stands on a huge page, or will when it is touched; set while all its units are free */
    uint64_t idle_since;
    uint64_t freed_at;     /* when a unit last came free */
    struct hk_link by_run;
    struct hk_link by_age;  /* linked while it has free units that are dirty */
    struct hk_link by_hole; /* linked while it has unmapped units */
} HK_ALIGNED(512);
_Static_assert(sizeof(struct hk_super) == 512, "none lies over two pages");

struct hk_leaf {
    _Atomic(_Atomic uint32_t *) xroutes; /* NULL: nothing here is HAKMEM's */
    struct hk_super *supers;             /* there before the routes are; in the window, those that are covered */
};

struct hk_branch {
    struct hk_leaf leaves[HK_BRANCH_LEAVES];
};

/* Read by every free; nothing passes before it is open. */
struct hk_window {
    uintptr_t base;           /* constant once `covered` is not 0 */
    size_t covered;           /* bytes from the base on whose routes may be read; only grows */
    _Atomic uint32_t *routes; /* of the base's unit, and those that follow */
    struct hk_super *supers;  /* likewise */
    size_t flat;              /* bytes from the base on whose supers may be read, if they are covered */
} HK_ALIGNED(HK_CACHE_LINE);

extern struct hk_window hk_window __attribute__((visibility("hidden")));
extern _Atomic(struct hk_branch *) hk_map_root[HK_BRANCHES] __attribute__((visibility("hidden")));

/* Called once, before anything else in this room: chooses the window. False if the system refuses its first table. */
bool hk_map_init(void);
/* From now on the window's tables may be read without the root; without this call, never. */
void hk_window_open(void);
/* Where the heap begins to grow in the window; 0 where the system chooses all addresses itself. */
uintptr_t hk_window_first(void);

/* NULL if nothing there was ever covered. */
HK_INLINE struct hk_leaf *hk_map_leaf(uintptr_t address)
{
    struct hk_branch *branch = address >> HK_ADDRESS_BITS == 0 ? hk_load_acquire(hk_map_root[address >> HK_BRANCH_SHIFT]) : NULL;
    return branch != NULL ? &branch->leaves[(address >> HK_LEAF_SHIFT) % HK_BRANCH_LEAVES] : NULL;
}

HK_INLINE _Atomic uint32_t *hk_map_route_by_root(uintptr_t address)
{
    struct hk_leaf *leaf = hk_map_leaf(address);
    _Atomic uint32_t *routes = leaf != NULL ? hk_load_acquire(leaf->xroutes) : NULL;
    return routes != NULL ? &routes[(address >> HK_UNIT_SHIFT) % HK_LEAF_UNITS] : NULL;
}

/* Where the route of an address is written; NULL if it is not covered. */
HK_INLINE _Atomic uint32_t *hk_map_route(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_LIKELY(place < HK_LOAD_SETTLED(hk_window.covered)))
        return &HK_LOAD_SETTLED(hk_window.routes)[place >> HK_UNIT_SHIFT];
    return hk_map_route_by_root(address);
}

/* The address must be covered. */
HK_INLINE struct hk_super *hk_map_super(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_LIKELY(place < HK_LOAD_SETTLED(hk_window.flat)))
        return &HK_LOAD_SETTLED(hk_window.supers)[place >> HK_SUPER_SHIFT];
    return &hk_map_leaf(address)->supers[(address >> HK_SUPER_SHIFT) % HK_LEAF_SUPERS];
}
HK_INLINE _Atomic(struct hk_slab *) *hk_map_slab(uintptr_t address)
{
    return &hk_map_super(address)->xslab[(address >> HK_UNIT_SHIFT) % HK_SUPER_UNITS];
}

/* The route of any address at all: 0 if it is not HAKMEM's. */
HK_INLINE uint32_t hk_map_lookup(uintptr_t address)
{
    _Atomic uint32_t *route = hk_map_route(address);
    return HK_LIKELY(route != NULL) ? hk_load_acquire(*route) : 0;
}

/* Makes the words of [address, address + size) writable. False if there are no such addresses, or the system refuses. */
bool hk_map_cover(uintptr_t address, size_t size);

/* Writes the words of `units` units: the slab first, so that who sees the route finds the slab. */
void hk_map_assign(uintptr_t address, size_t units, uint32_t route, struct hk_slab *slab);
void hk_map_route_all(uintptr_t address, size_t units, uint32_t route);

/* Bytes of tables that are mapped. */
size_t hk_map_tables(void);
/* The first stretch of tables in [from, to); empty, at `to`, if there is none. */
struct hk_map_stretch {
    uintptr_t start, end;
};
struct hk_map_stretch hk_map_next_table(uintptr_t from, uintptr_t to);
/* The first address from `address` on that is covered, where its super may be looked at; UINTPTR_MAX if there is none. */
uintptr_t hk_map_next_covered(uintptr_t address);

#endif
