#include "span/map.h"

#include "base/bits.h"
#include "base/fatal.h"

struct hk_map hk_map;

enum { UNITS_PER_SUPER_SHIFT = HK_SUPER_SHIFT - HK_UNIT_SHIFT };
#define SMALLEST_WINDOW (64 * HK_MIB)
#define WIDEST_WINDOW ((size_t)1 << 40)

static bool reserve_arrays(uintptr_t first_unit, uintptr_t units, enum hk_access unwritten_routes)
{
    if (!hk_sparse_reserve(&hk_map.route_array, units * sizeof(uint32_t), unwritten_routes))
        return false;
    if (!hk_sparse_reserve(&hk_map.super_array, (units >> UNITS_PER_SUPER_SHIFT) * sizeof(struct hk_super),
                           HK_ACCESS_NONE)) {
        hk_sparse_drop(&hk_map.route_array);
        return false;
    }
    hk_map.routes = (void *)hk_map.route_array.base;
    hk_map.supers = (void *)hk_map.super_array.base;
    hk_map.first_unit = first_unit;
    hk_map.units = units;
    return true;
}

static void drop_arrays(void)
{
    hk_map.units = 0;
    hk_sparse_drop(&hk_map.route_array);
    hk_sparse_drop(&hk_map.super_array);
}

/* Where memory will lie that is asked for from now on: small pieces in the gaps between mappings, large ones and what finds
 * no gap any more beside all of them. False if there is no room for a page. */
static bool next_addresses(uintptr_t *lowest, uintptr_t *highest)
{
    *lowest = UINTPTR_MAX;
    *highest = 0;
    for (size_t size = SMALLEST_WINDOW; size >= HK_PAGE; size /= 4) {
        char *probe = hk_os.map(size, HK_ACCESS_NONE);
        if (probe == NULL)
            continue;
        hk_os.unmap(probe, size);
        *lowest = hk_min(*lowest, (uintptr_t)probe);
        *highest = hk_max(*highest, (uintptr_t)probe);
    }
    return *highest != 0;
}

/* The kernel hands out addresses downwards from where it just put the probes, at most as many bytes as the limit allows: a
 * window of several times the limit on both sides holds whatever this process can ever get. Unless what was reserved
 * here, or could not be given back, took that room: then it is given up. */
static bool reserve_window(size_t limit)
{
    uintptr_t low, high, next_low, next_high;
    if (!next_addresses(&low, &high))
        return false;
    size_t step = hk_max(hk_align_up(hk_min(limit, WIDEST_WINDOW), HK_SUPER), SMALLEST_WINDOW);
    low = low > 8 * step ? hk_align_down(low - 8 * step, HK_SUPER) : 0;
    high = hk_min(hk_align_up(high, HK_SUPER) + 8 * step, (uintptr_t)1 << HK_ADDRESS_BITS);
    if (!reserve_arrays(low >> HK_UNIT_SHIFT, (high - low) >> HK_UNIT_SHIFT, HK_ACCESS_NONE))
        return false;
    if (next_addresses(&next_low, &next_high) && hk_map_inside(next_low) && hk_map_inside(next_high) &&
        hk_map_cover(low, high - low))
        return true;
    drop_arrays();
    return false;
}

bool hk_map_init(void)
{
    hk_map.address_limit = hk_os.address_limit();
    hk_map.flat = hk_map.address_limit == SIZE_MAX && reserve_arrays(0, HK_FLAT_MASK + 1, HK_ACCESS_READ);
    if (hk_map.flat)
        return true;
    for (size_t limit = hk_map.address_limit;; limit = hk_min(limit, WIDEST_WINDOW) / 4) {
        if (reserve_window(limit))
            return true;
        if (limit <= SMALLEST_WINDOW)
            return false;
    }
}

static bool cover(struct hk_sparse *array, size_t from, size_t size)
{
    if (from / array->window == (from + size - 1) / array->window && hk_sparse_covers(array, from / array->window))
        return true;
    return hk_sparse_cover_slow(array, from, size);
}

bool hk_map_cover(uintptr_t address, size_t size)
{
    uintptr_t first = (address >> HK_UNIT_SHIFT) - hk_map.first_unit;
    uintptr_t units = ((address + size - 1) >> HK_UNIT_SHIFT) - (address >> HK_UNIT_SHIFT) + 1;
    if (first >= hk_map.units || units > hk_map.units - first)
        return false;
    uintptr_t first_super = first >> UNITS_PER_SUPER_SHIFT;
    uintptr_t supers = ((first + units - 1) >> UNITS_PER_SUPER_SHIFT) - first_super + 1;
    return cover(&hk_map.route_array, first * sizeof(uint32_t), units * sizeof(uint32_t)) &&
           cover(&hk_map.super_array, first_super * sizeof(struct hk_super), supers * sizeof(struct hk_super));
}

void hk_map_assign(uintptr_t address, size_t units, uint32_t route, uint32_t slab)
{
    for (size_t i = 0; i < units; i++)
        hk_store(*hk_map_slab(address + i * HK_UNIT), slab);
    hk_map_route_all(address, units, route);
}

void hk_map_route_all(uintptr_t address, size_t units, uint32_t route)
{
    for (size_t i = 0; i < units; i++)
        hk_store_release(*hk_map_route(address + i * HK_UNIT), route);
}

size_t hk_map_committed(void)
{
    return hk_sparse_committed(&hk_map.route_array) + hk_sparse_committed(&hk_map.super_array);
}
