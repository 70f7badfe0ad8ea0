/* Map: whose address is this?
 *
 *   address >> 16 -> xroute:  owner << 12 | class * 32     one word for each unit of 64 KiB, read by every free
 *   address >> 21 -> super:   slab numbers of its 32 units, and which of them are free (see runs.h)
 *
 * Owns       the routes, the supers, and the window of addresses that they cover.
 * Invariant  a route of 0 means: not HAKMEM's. Where the map covers all 47 bits of address space ("flat"), any address below
 *            2^47 may be looked up without a bound; where address space is scarce (RLIMIT_AS), the map covers a window around
 *            what the kernel hands out, and the front looks up nothing by itself.
 * Threads    read: any. A unit's words are written by whoever holds the unit. */
#ifndef HK_MAP_H
#define HK_MAP_H

#include "base/list.h"
#include "span/sparse.h"

enum {
    HK_UNIT_SHIFT = 16,
    HK_SUPER_SHIFT = 21,
    HK_SUPER_UNITS = 32,
    HK_ADDRESS_BITS = 47,
    HK_ROUTE_OWNER_SHIFT = 12,
};
#define HK_UNIT ((size_t)1 << HK_UNIT_SHIFT)
#define HK_SUPER ((size_t)1 << HK_SUPER_SHIFT)
#define HK_ROUTE_CLASS_MASK (((uint32_t)1 << HK_ROUTE_OWNER_SHIFT) - 1)
#define HK_FLAT_MASK (((uintptr_t)1 << (HK_ADDRESS_BITS - HK_UNIT_SHIFT)) - 1)

struct hk_super {
    /* under the runs' lock */
    uint32_t owned;   /* units that are HAKMEM's */
    uint32_t free;    /* of these, units that no slab uses */
    uint32_t dirty;   /* units that may hold pages */
    uint32_t aged;    /* free and dirty units that purge has passed by once */
    uint16_t longest; /* the list that it is on: the longest run of free units */
    uint8_t use;      /* the kind of run that it serves */
    bool huge;        /* huge pages were asked for */
    uint32_t purged;     /* free units whose pages were given back */
    uint64_t idle_since;
    uint64_t freed_at;   /* when a unit last came free */
    struct hk_link by_run;
    struct hk_link by_age; /* linked while it has free units that are dirty */
    /* written by the holder of the unit */
    _Atomic uint32_t xslab[HK_SUPER_UNITS];
};

struct hk_map {
    /* constant after init */
    _Atomic uint32_t *routes; /* indexed by unit number less first_unit */
    struct hk_super *supers;  /* indexed by super number less first_unit / 32 */
    uintptr_t first_unit, units;
    bool flat;
    size_t address_limit; /* bytes of address space that the process may have; SIZE_MAX if not limited */
    struct hk_sparse route_array, super_array;
};

extern struct hk_map hk_map;

/* Called once, before anything else in this room. False if not even a small window can be had. */
bool hk_map_init(void);

HK_INLINE bool hk_map_inside(uintptr_t address) { return (address >> HK_UNIT_SHIFT) - hk_map.first_unit < hk_map.units; }

/* The address must be inside. */
HK_INLINE _Atomic uint32_t *hk_map_route(uintptr_t address)
{
    return &hk_map.routes[(address >> HK_UNIT_SHIFT) - hk_map.first_unit];
}
HK_INLINE struct hk_super *hk_map_super(uintptr_t address)
{
    return &hk_map.supers[(address >> HK_SUPER_SHIFT) - (hk_map.first_unit >> (HK_SUPER_SHIFT - HK_UNIT_SHIFT))];
}
HK_INLINE _Atomic uint32_t *hk_map_slab(uintptr_t address)
{
    return &hk_map_super(address)->xslab[(address >> HK_UNIT_SHIFT) % HK_SUPER_UNITS];
}

/* The route of any address at all: 0 if it is not HAKMEM's. */
HK_INLINE uint32_t hk_map_lookup(uintptr_t address)
{
    return HK_LIKELY(hk_map_inside(address)) ? hk_load_acquire(*hk_map_route(address)) : 0;
}

/* Makes the words of [address, address + size) writable. False if they lie outside or the system refuses. */
bool hk_map_cover(uintptr_t address, size_t size);

/* Writes the words of `units` units: the slab number first, so that who sees the route finds the slab. */
void hk_map_assign(uintptr_t address, size_t units, uint32_t route, uint32_t slab);
void hk_map_route_all(uintptr_t address, size_t units, uint32_t route);

/* Bytes of metadata that the map has committed. */
size_t hk_map_committed(void);

#endif
