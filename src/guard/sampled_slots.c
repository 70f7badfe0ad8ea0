/* Hands out slots between guard pages, and makes a slot inaccessible when its block is freed. */
#include "guard/sampled_slots.h"
#include "base/lock.h"

#define LEAST_SLOT (8 * HK_KIB)
#define MOST_LIVE_BYTES (HK_SLOTS_LIVE * LEAST_SLOT)
enum { PATTERN_BYTES = 64, LEAST_ALIGN = 16 };

struct hk_slot_range hk_slot_range;

/* The records of the slots lie in .bss.cold, so that none of their pages is touched before the first sample. */
static struct hk_slot slots[HK_SLOTS] HK_COLD_DATA;
static uint8_t queue[HK_SLOTS] HK_COLD_DATA; /* a ring of the numbers of the slots that are not live */

static struct {
    struct hk_lock lock;
    size_t page, slot_bytes, stride;
    unsigned first; /* the next block gets the slot at queue[first] */
    _Atomic unsigned xlive;
    uint64_t random;
} guarded = {.lock = HK_LOCK_INIT(HK_RANK_GUARDED)};

HK_EACH_PROCESS void hk_slots_init(void) { hk_lock_register(HK_RANK_GUARDED, &guarded.lock); }

static bool map_slots(void)
{
    if (hk_load(hk_slot_range.xbytes) != 0)
        return true;
    guarded.page = hk_os.page_size();
    guarded.slot_bytes = hk_max(LEAST_SLOT, guarded.page);
    guarded.stride = guarded.slot_bytes + guarded.page;
    guarded.random = hk_os.clock_ns() ^ (uintptr_t)&guarded;
    size_t bytes = guarded.page + HK_SLOTS * guarded.stride;
    void *start = hk_os_map_aligned(bytes, guarded.page);
    if (start != NULL && !hk_os.bar(start, bytes)) {
        hk_os.unmap(start, bytes);
        return false;
    }
    for (unsigned i = 0; i < HK_SLOTS; i++)
        queue[i] = (uint8_t)i;
    hk_store(hk_slot_range.xstart, (uintptr_t)start);
    hk_store_release(hk_slot_range.xbytes, start != NULL ? bytes : 0);
    return start != NULL;
}

/* Returns the pages that contain the block. The slot's other pages stay inaccessible. */
static struct hk_range pages_of(uintptr_t block, size_t size)
{
    return (struct hk_range){hk_align_down(block, guarded.page), hk_align_up(block + hk_max(1, size), guarded.page)};
}

bool hk_slot_opens(const struct hk_slot *slot, uintptr_t address)
{
    struct hk_range pages = pages_of(hk_load(slot->xblock), hk_load(slot->xsize));
    return address >= pages.start && address < pages.end;
}

/* Writes the pattern beside the block if `paints` is true. Otherwise checks the pattern, and returns the address of the first wrong byte, or 0. */
static uintptr_t walk_sides(const struct hk_slot *slot, bool paints)
{
    uintptr_t block = hk_load(slot->xblock), end = block + hk_load(slot->xsize);
    struct hk_range pages = pages_of(block, hk_load(slot->xsize));
    for (uintptr_t at = hk_max(block - PATTERN_BYTES, pages.start); at < hk_min(end + PATTERN_BYTES, pages.end); at++) {
        unsigned char *byte = (unsigned char *)at, pattern = (unsigned char)(at * 7 | 1);
        if (at >= block && at < end)
            continue;
        if (paints)
            *byte = pattern;
        else if (*byte != pattern)
            return at;
    }
    return 0;
}

uintptr_t hk_slot_damage(const struct hk_slot *slot) { return walk_sides(slot, false); }

static struct hk_slot *take_slot(size_t size, size_t align)
{
    unsigned live = hk_load(guarded.xlive);
    if (size > guarded.slot_bytes || align > guarded.page || live >= hk_max(1, MOST_LIVE_BYTES / guarded.slot_bytes))
        return NULL;
    size_t number = queue[guarded.first];
    struct hk_slot *slot = &slots[number];
    uintptr_t left = hk_load(hk_slot_range.xstart) + guarded.page + number * guarded.stride;
    if (slot->dirty && !hk_os.bar((void *)left, guarded.slot_bytes))
        return NULL;
    slot->dirty = false;
    guarded.random = hk_random_next(guarded.random);
    uintptr_t fitting = hk_align_down(left + guarded.slot_bytes - hk_max(size, 1), hk_max(align, LEAST_ALIGN));
    uintptr_t block = guarded.random >> 63 != 0 ? left : fitting;
    struct hk_range pages = pages_of(block, size);
    if (!hk_os.unbar((void *)pages.start, pages.end - pages.start))
        return NULL;
    guarded.first = (guarded.first + 1) % HK_SLOTS;
    hk_store(guarded.xlive, live + 1);
    slot->allocated.thread = slot->freed.thread = 0;
    hk_store(slot->xblock, block);
    hk_store(slot->xsize, size);
    (void)walk_sides(slot, true);
    hk_store_release(slot->xstate, HK_SLOT_LIVE);
    return slot;
}

struct hk_slot *hk_slot_take(size_t size, size_t align)
{
    return HK_UNDER(&guarded.lock, map_slots() ? take_slot(size, align) : NULL);
}

enum hk_slot_find hk_slot_find(const void *block)
{
    const struct hk_slot *slot = hk_slot_near((uintptr_t)block);
    if (hk_load(slot->xblock) != (uintptr_t)block)
        return HK_SLOT_INSIDE;
    return hk_load_acquire(slot->xstate) == HK_SLOT_LIVE ? HK_SLOT_BLOCK : HK_SLOT_FREE_ALREADY;
}

enum hk_slot_find hk_slot_put(const void *block, const struct hk_packed_stack *by)
{
    hk_lock(&guarded.lock);
    struct hk_slot *slot = hk_slot_near((uintptr_t)block);
    enum hk_slot_find found = hk_slot_find(block);
    if (found == HK_SLOT_BLOCK) {
        struct hk_range pages = pages_of((uintptr_t)block, hk_load(slot->xsize));
        slot->freed = *by;
        hk_store_release(slot->xstate, HK_SLOT_FREED);
        slot->dirty = !hk_os.bar((void *)pages.start, pages.end - pages.start);
        unsigned live = hk_load(guarded.xlive);
        queue[(guarded.first + HK_SLOTS - live) % HK_SLOTS] = (uint8_t)(slot - slots);
        hk_store(guarded.xlive, live - 1);
    }
    hk_unlock(&guarded.lock);
    return found;
}

/* Returns the bytes between the address and the slot's block. If the slot was never used, returns UINTPTR_MAX. */
static uintptr_t distance(const struct hk_slot *slot, uintptr_t address)
{
    uintptr_t block = hk_load(slot->xblock), end = block + hk_load(slot->xsize);
    if (hk_load_acquire(slot->xstate) == HK_SLOT_UNUSED)
        return UINTPTR_MAX;
    return address < block ? block - address : address >= end ? address - end : 0;
}

struct hk_slot *hk_slot_near(uintptr_t address)
{
    size_t number = hk_min((address - hk_load(hk_slot_range.xstart)) / guarded.stride, HK_SLOTS - 1);
    struct hk_slot *nearest = &slots[number];
    for (size_t i = number - (number > 0); i <= number + 1 && i < HK_SLOTS; i++)
        if (distance(&slots[i], address) < distance(nearest, address))
            nearest = &slots[i];
    return nearest;
}

size_t hk_slots_live(void) { return hk_load(guarded.xlive); }
