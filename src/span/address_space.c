/* Chooses the address at which the heap grows, and maps memory there. */
#include "span/address_space.h"

#include "base/bits.h"
#include "count/stats.h"
#include "os/os.h"
#include "span/page_map.h"

#define FIRST_SKIP (1 * HK_GIB)
enum { SKIPS = 6 }; /* each skip doubles the distance */

static uintptr_t heap_end; /* in the window; 0: the system chooses addresses */

void hk_address_space_init(void) { heap_end = hk_window_first(); }

static uintptr_t fit(uintptr_t at, size_t size)
{
    bool crosses = at / HK_CHUNK != (at + size - 1) / HK_CHUNK;
    return size % HK_CHUNK == 0 || crosses ? hk_align_up(at, HK_CHUNK) : at;
}

/* With this alignment, memory lies in one chunk or covers whole chunks. */
static size_t alignment_for(size_t size)
{
    size_t align = HK_SLICE;
    while (align < hk_min(size, HK_CHUNK))
        align *= 2;
    return align;
}

static uintptr_t map_in_window(size_t size)
{
    uintptr_t at = fit(heap_end, size);
    size_t skip = FIRST_SKIP;
    enum hk_placed placed = hk_os.map_at((void *)at, size);
    for (unsigned i = 0; placed == HK_PLACE_TAKEN && i < SKIPS; i++, skip *= 2) {
        at = hk_align_up(at + skip, HK_CHUNK);
        placed = hk_os.map_at((void *)at, size);
    }
    if (placed != HK_PLACED)
        return 0;
    heap_end = at + size;
    return at;
}

/* Returns `at`; 0 and no mapping if the page map cannot cover it. */
static uintptr_t covered(uintptr_t at, size_t size)
{
    if (at == 0 || hk_page_map_cover(at, size))
        return at;
    hk_os.unmap((void *)at, size);
    return 0;
}

uintptr_t hk_address_space_map(size_t size)
{
    uintptr_t at = heap_end != 0 ? covered(map_in_window(size), size) : 0;
    if (at == 0)
        at = covered((uintptr_t)hk_os_map_aligned(size, alignment_for(size)), size);
    HK_COUNT(outside_window, at == 0 || hk_page_map_is_flat(at, size) ? 0 : size);
    return at;
}

bool hk_address_space_map_again(uintptr_t address, size_t size, bool *lost)
{
    enum hk_placed placed = hk_os.map_at((void *)address, size);
    *lost = placed == HK_PLACE_TAKEN;
    return placed == HK_PLACED;
}
