/* Writes and checks the state bytes and canaries of blocks, and makes the pages of freed medium blocks inaccessible. */
#include "guard/block_checks.h"
#include "base/inline_copy.h"
#include "slab/joined_blocks.h"
#include "tcache/layout.h"

enum { KIND_MASK = 3, LOW_PAGES = 32, READINGS = 3 };

/* A block's canary is a secret value behind the requested bytes. If the value has changed, the program wrote behind these bytes. The canary fills the
 * bytes that rounding adds, at least 8. Only the thread that has the block writes the canary. Any thread may read it.
 *
 *   | requested bytes | mark, up to 8 bytes | zeros | word: key ^ slack |        slack = bytes of the block - requested bytes
 *
 * The word holds the slack, so that the requested size is known. The key depends on the address and on the secret. Mark and word begin with a zero
 * byte. Therefore a read of a string without a final 0 ends at the canary, and a final 0 written one byte too far does not change the canary. */
#define CANARY_BYTES sizeof(uint64_t)
enum { CANARY_CHECKED = 64 }; /* a check reads at most this number of bytes, from the mark on */
#define CANARY_BROKEN SIZE_MAX

HK_INLINE uint64_t canary_key(const char *end)
{
    uint64_t key = ((uintptr_t)end ^ hk_guard.secret) * 0x9e3779b97f4a7c15u;
    return (key ^ key >> 32) << 8;
}
HK_INLINE uint64_t canary_mark(void) { return (hk_guard.secret | 0x0101010101010101u) << 8; }

HK_INLINE uint64_t load64(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}
HK_INLINE void store64(char *at, uint64_t word) { memcpy(at, &word, sizeof word); }

/* Writes the canary of a block. If the protection `zero` is in force, the bytes from block + size to end must be zero before the call. */
HK_INLINE void canary_write(char *block, char *end, size_t size)
{
    store64(block + size, canary_mark());
    store64(end - CANARY_BYTES, canary_key(end) ^ (size_t)(end - block - (ptrdiff_t)size) << 8);
}

HK_INLINE size_t canary_slack(const char *end, size_t bytes)
{
    uint64_t word = load64(end - CANARY_BYTES) ^ canary_key(end), slack = word >> 8;
    return (word & 0xff) == 0 && slack >= CANARY_BYTES && slack <= bytes ? (size_t)slack : CANARY_BROKEN;
}

HK_INLINE size_t canary_size(const char *block, const char *end)
{
    size_t slack = canary_slack(end, (size_t)(end - block));
    if (HK_UNLIKELY(slack == CANARY_BROKEN))
        return CANARY_BROKEN;
    size_t between = slack - CANARY_BYTES;
    const char *at = end - slack;
    uint64_t differs = load64(at) ^ canary_mark();
    if (between < sizeof differs)
        differs &= ((uint64_t)1 << between * 8) - 1;
    size_t zeros = HK_GUARDS(zero) ? CANARY_CHECKED : 0, checked = between < zeros ? between : zeros;
    for (size_t i = sizeof differs; i + sizeof differs <= checked; i += sizeof differs)
        differs |= load64(at + i);
    return differs == 0 ? (size_t)(end - block) - slack : CANARY_BROKEN;
}

/* An area is a block as the guard sees it. The program can access the bytes in [start, end). The canary lies at the end of these bytes. */
struct area {
    char *start, *end;
    size_t bytes;
    enum { PLAIN, MEDIUM, LARGE } shape;
};

HK_INLINE size_t bytes_of(const void *block, uint32_t entry)
{
    if (HK_LIKELY(hk_entry_is_plain(entry)))
        return hk_classes[hk_entry_class(entry)].size;
    return hk_entry_is_mixed(entry) ? hk_joined_bytes(block) : hk_large_at((uintptr_t)block)->requested;
}

size_t hk_guard_bytes(const void *block) { return bytes_of(block, hk_page_map_lookup((uintptr_t)block)); }

static HK_NOINLINE void divide_medium(struct area *area, size_t accessible)
{
    size_t page = hk_system_page();
    bool whole = (uintptr_t)area->start % page == 0 && area->bytes % page == 0;
    bool large = hk_entry_is_large(hk_page_map_lookup((uintptr_t)area->start));
    area->shape = large ? LARGE : whole ? MEDIUM : PLAIN;
    if (area->shape == LARGE)
        area->end -= page;
    else if (area->shape == MEDIUM)
        area->end = area->start + accessible;
}

/* Stores the number of accessible pages of a medium block in the two state bytes after the block's first state byte, because no other block begins in
 * this block. Both numbers are below LOW_PAGES, so that these bytes stay below each state, and no address in the block seems to be live. */
static void note_accessible(hk_state_byte *state, size_t bytes)
{
    hk_store(state[1], (uint8_t)(bytes / HK_PAGE % LOW_PAGES));
    hk_store(state[2], (uint8_t)(bytes / HK_PAGE / LOW_PAGES));
}

static size_t accessible_of(const hk_state_byte *state)
{
    return (hk_load(state[1]) + (size_t)hk_load(state[2]) * LOW_PAGES) * HK_PAGE;
}

/* Returns the area of a block. If `state` is NULL, the block is about to be given out for a request of `size` bytes. Otherwise `size` is ignored. */
HK_INLINE struct area area_of(const void *block, size_t bytes, const hk_state_byte *state, size_t size)
{
    char *start = (char *)(uintptr_t)block;
    struct area area = {.start = start, .end = start + bytes, .bytes = bytes, .shape = PLAIN};
    if (HK_UNLIKELY(bytes >= HK_GUARD_MEDIUM_FROM) && HK_GUARDS(pages))
        divide_medium(&area, state != NULL ? accessible_of(state) : hk_in_system_pages(size + CANARY_BYTES));
    return area;
}

/* Makes the pages of the area accessible, and the block's other pages inaccessible. If the system allows no more mappings, a block that is given out
 * for the first time stays wholly accessible. Returns false if the system refuses to make the pages of the area accessible. */
static bool open_pages(struct area area, hk_state_byte *state, bool first)
{
    size_t accessible = (size_t)(area.end - area.start), rest = area.bytes - accessible;
    if (area.shape == MEDIUM)
        note_accessible(state, accessible);
    if (!first && area.shape == MEDIUM && !hk_os.unbar(area.start, accessible))
        return false;
    if (rest > 0)
        (void)hk_os.bar(area.end, rest);
    return true;
}

HK_INLINE uint8_t make_busy(hk_state_byte *state)
{
    uint8_t before = hk_load(*state);
    hk_store(*state, HK_STATE_BUSY);
    HK_FENCE(memory_order_release);
    return before;
}

HK_INLINE void *give(struct area area, size_t size, enum hk_kind kind, hk_state_byte *state)
{
    uint8_t before = make_busy(state);
    bool first = before == HK_STATE_NONE, ready = area.shape == PLAIN || open_pages(area, state, first);
    if (area.shape == PLAIN && HK_GUARDS(zero) && !first && HK_UNLIKELY(!hk_is_zero(area.start, area.bytes)))
        hk_guard_fault(HK_CALL_MALLOC, HK_TEXT_written_free, area.start);
    if (ready && HK_GUARDS(canary))
        canary_write(area.start, area.end, size);
    hk_store_release(*state, HK_LIKELY(ready) ? (uint8_t)(HK_STATE_LIVE | kind) : before);
    return HK_LIKELY(ready) ? area.start : NULL;
}

void *hk_guard_give_plain(void *block, size_t bytes, size_t size, enum hk_kind kind, hk_state_byte *state)
{
    return give((struct area){block, (char *)block + bytes, bytes, PLAIN}, size, kind, state);
}

void *hk_guard_give_out(void *block, size_t bytes, size_t size, enum hk_kind kind)
{
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    if (HK_UNLIKELY(state == NULL)) {
        hk_state_byte *spare = hk_states_take_spare();
        if (spare == NULL)
            return NULL;
        state = hk_state_make_from((uintptr_t)block, spare);
    }
    if (hk_guard.contents)
        return give(area_of(block, bytes, NULL, size), size, kind, state);
    hk_store_release(*state, (uint8_t)(HK_STATE_LIVE | kind));
    return block;
}

static HK_COLD void refuse_free(enum hk_call call, const void *block)
{
    const char *fault = hk_guard_fault_of(block);
    struct hk_text text;
    if (fault != NULL)
        hk_guard_fault(call, hk_track_report_fault(&text, fault, block), block);
    else if (call != HK_CALL_USABLE_SIZE)
        HK_COUNT(foreign_frees, 1);
}

HK_INLINE hk_state_byte *live_state(enum hk_call call, const void *block)
{
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    bool live = state != NULL && (uintptr_t)block % HK_FINE_STEP == 0 && (hk_load(*state) & HK_STATE_LIVE) != 0;
    if (HK_LIKELY(live))
        return state;
    refuse_free(call, block);
    return NULL;
}

/* Returns the requested size or, if canaries are off, the accessible bytes. With canaries, hk_guard.leaves is false, so a fault ends the program. */
HK_INLINE size_t requested_of(enum hk_call call, struct area area)
{
    if (!HK_GUARDS(canary))
        return (size_t)(area.end - area.start);
    size_t size = canary_size(area.start, area.end);
    if (HK_UNLIKELY(size == CANARY_BROKEN))
        hk_guard_fault(call, HK_TEXT_written_behind, area.start);
    return size;
}

size_t hk_guard_requested(enum hk_call call, const void *block)
{
    hk_state_byte *state = live_state(call, block);
    if (HK_UNLIKELY(state == NULL))
        return HK_SIZE_UNKNOWN;
    return requested_of(call, area_of(block, hk_guard_bytes(block), state, 0));
}

size_t hk_guard_requested_quietly(const void *block, size_t size)
{
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    if (state == NULL || (hk_load_acquire(*state) & HK_STATE_LIVE) == 0 || !HK_GUARDS(canary))
        return size;
    struct area area = area_of(block, hk_guard_bytes(block), state, 0);
    size_t bytes = (size_t)(area.end - area.start), slack = canary_slack(area.end, bytes);
    return slack != CANARY_BROKEN ? bytes - slack : size;
}

enum hk_kind hk_guard_kind(const void *block)
{
    return (enum hk_kind)(hk_load(*hk_state_at((uintptr_t)block)) & KIND_MASK);
}

/* Returns true if the neighbor's bytes next to the block contradict the neighbor's state. A free neighbor must be zero. A live neighbor before the
 * block must have a whole canary. Returns false if the state changes during the reading, because the bytes then prove nothing. */
HK_INLINE bool seems_written(hk_state_byte *state, const char *neighbor, size_t size, bool before)
{
    uint8_t now = hk_load_acquire(*state);
    size_t span = hk_min(size, HK_NEIGHBORHOOD);
    bool live = (now & HK_STATE_LIVE) != 0, broken, written;
    broken = live && before && HK_GUARDS(canary) && canary_slack(neighbor + size, size) == CANARY_BROKEN;
    written =
        (now & ~HK_STATE_FREE) == 0 && HK_GUARDS(zero) && !hk_is_zero(before ? neighbor + size - span : neighbor, span);
    HK_FENCE(memory_order_acquire);
    return HK_UNLIKELY(broken || written) && hk_load(*state) == now;
}

/* Checks a neighbor of a block. Reports a fault only if each reading finds one, because another thread may be changing the neighbor. */
HK_INLINE void check_neighbor(enum hk_call call, const char *block, const char *neighbor, size_t size,
                              hk_state_byte *state, bool before)
{
    for (unsigned i = 0; i < READINGS; i++)
        if (HK_LIKELY(!seems_written(state, neighbor, size, before)))
            return;
    hk_guard_fault(call, before ? HK_TEXT_written_before : HK_TEXT_written_behind, block);
}

/* Checks one neighbor on each side of a live block, or two if blocks have 16 bytes. Reads the slab only if the block is near an end of a slice. */
static void check_neighbors(enum hk_call call, const char *block, size_t size, hk_state_byte *state)
{
    size_t place = (uintptr_t)block % HK_SLICE, within = hk_max(size, HK_NEIGHBORHOOD), before = within,
           behind = within;
    if (HK_UNLIKELY(place < within) || HK_UNLIKELY(place + within + size > HK_SLICE - hk_system_page())) {
        const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
        if (slab->d.class >= HK_CLASSES || slab->mixed)
            return;
        before = (uintptr_t)block - slab->d.start;
        behind = (size_t)slab->d.blocks * slab->d.block_size - before - size;
    }
    for (size_t d = size; d <= within; d += size) {
        if (d <= before)
            check_neighbor(call, block, block - d, size, state - (d >> HK_STATE_SHIFT), true);
        if (d <= behind)
            check_neighbor(call, block, block + d, size, state + (d >> HK_STATE_SHIFT), false);
    }
}

HK_INLINE void retire(enum hk_call call, const struct area *area, hk_state_byte *state)
{
    if (HK_GUARDS(neighbors) && area->shape == PLAIN)
        check_neighbors(call, area->start, area->bytes, state);
    (void)make_busy(state);
    bool gone = area->shape == LARGE /* its mapping will be removed */ ||
                (area->shape == MEDIUM && hk_os.bar(area->start, area->bytes));
    if (!gone && HK_GUARDS(zero))
        hk_inline_zero(area->start, (size_t)(area->end - area->start));
    hk_store_release(*state, HK_STATE_FREE);
}

void hk_guard_retire_plain(enum hk_call call, void *block, size_t bytes, hk_state_byte *state)
{
    struct area area = {block, (char *)block + bytes, bytes, PLAIN};
    (void)requested_of(call, area);
    retire(call, &area, state);
}

/* Marks a block as free. If remote frees are tracked and two threads free the block at the same moment, refuses the second free and returns false. */
static bool becomes_free(enum hk_call call, const void *block, hk_state_byte *state)
{
    uint8_t before = hk_load(*state);
    if (!hk_remote_track.on) {
        hk_store(*state, HK_STATE_FREE);
        return true;
    }
    if ((before & HK_STATE_LIVE) != 0 && atomic_compare_exchange_strong(state, &before, HK_STATE_FREE))
        return true;
    refuse_free(call, block);
    return false;
}

/* Returns true if a request of `size` bytes with this alignment could have got the block. For this, the block must have the request's class, or a
 * class that may serve this class. Also accepts blocks for a larger alignment, because C++14 code may free aligned C++17 blocks. */
static bool is_class_for(const void *block, uint32_t entry, size_t size, size_t align)
{
    unsigned class = hk_entry_class(entry), own = hk_class_of_aligned(size, align);
    if (class == HK_CLASS_LARGE)
        return hk_large_at((uintptr_t)block)->requested == hk_large_bytes_for(size);
    while (own < class && own + hk_class_settings[own].servers < class && align < HK_SLICE)
        own = hk_class_of_aligned(size, align *= 2);
    return own <= class && class <= own + hk_class_settings[own].servers;
}

/* Returns false if the size cannot be that of a live block with this page map entry. If `resizes` is true, realloc may have resized the block. */
static bool size_fits(const void *block, uint32_t entry, size_t size, bool resizes)
{
    if (entry == 0 || hk_entry_is_mixed(entry))
        return true;
    return resizes ? size <= bytes_of(block, entry) : is_class_for(block, entry, size, HK_FINE_STEP);
}

static const char *const blocks_of[HK_KINDS] = {HK_TEXT_of_malloc, HK_TEXT_of_new, HK_TEXT_of_new_array};

void *hk_guard_take_back(enum hk_call call, void *block, enum hk_kind kind, size_t size)
{
    hk_state_byte *state = live_state(call, block);
    if (HK_UNLIKELY(state == NULL))
        return NULL;
    enum hk_kind was = (enum hk_kind)(hk_load(*state) & KIND_MASK);
    if (HK_GUARDS(kinds) && HK_UNLIKELY(was != kind)) {
        hk_guard_fault(call, blocks_of[was], block);
        return NULL;
    }
    if (!hk_guard.contents && size == HK_SIZE_UNKNOWN)
        return becomes_free(call, block, state) ? block : NULL;
    struct area area = area_of(block, hk_guard_bytes(block), state, 0);
    size_t requested = requested_of(call, area);
    bool fits = size == HK_SIZE_UNKNOWN || (HK_GUARDS(canary) ? size == requested
                                                              : size_fits(block, hk_page_map_lookup((uintptr_t)block),
                                                                          hk_guard_size(size), kind == HK_KIND_MALLOC));
    if (HK_UNLIKELY(!fits)) {
        hk_guard_fault(call, HK_TEXT_other_size, block);
        return NULL;
    }
    if (!hk_guard.contents)
        return becomes_free(call, block, state) ? block : NULL;
    bool large = area.bytes >= HK_SLICE && hk_entry_is_large(hk_page_map_lookup((uintptr_t)block));
    struct hk_tcache *cache = large ? NULL : hk_tcache_self();
    retire(call, &area, state);
    return HK_GUARDS(quarantine) && cache != NULL ? hk_quarantine_swap(cache, block) : block;
}

bool hk_guard_resize(void *block, size_t before, size_t size)
{
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    struct area area = area_of(block, hk_guard_bytes(block), state, 0);
    if (area.shape != PLAIN || hk_guard_size(size) > area.bytes || hk_guard_size(size) < area.bytes / 2)
        return false;
    uint8_t now = make_busy(state);
    size_t same = hk_min(before, size);
    memset(area.start + same, 0, area.bytes - same);
    if (HK_GUARDS(canary))
        canary_write(area.start, area.end, size);
    hk_store_release(*state, now);
    return true;
}

hk_state_byte *hk_guard_passage_begin(const void *block)
{
    hk_state_byte *spare = hk_states_take_spare();
    if (spare != NULL)
        hk_store_release(*hk_state_at((uintptr_t)block), HK_STATE_FREE);
    return spare;
}

void hk_guard_passage_end(hk_state_byte *spare, const void *block, enum hk_kind kind)
{
    hk_store_release(*hk_state_make_from((uintptr_t)block, spare), (uint8_t)(HK_STATE_LIVE | kind));
}

void hk_sized_check(enum hk_call call, const void *block, uint32_t entry, size_t size)
{
    if (HK_UNLIKELY(!size_fits(block, entry, size, call != HK_CALL_DELETE_SIZED)))
        hk_invalid_size(call, size, block);
}

void hk_sized_check_aligned(const void *block, size_t size, size_t align)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (entry != 0 && hk_entry_class(entry) == HK_CLASS_LARGE)
        hk_large_check(HK_CALL_DELETE_SIZED, block);
    else if (hk_entry_is_medium(entry))
        hk_mark_check(HK_CALL_DELETE_SIZED, block);
    else
        return;
    if (HK_UNLIKELY(!is_class_for(block, entry, size, hk_max(align, HK_FINE_STEP))))
        hk_invalid_size(HK_CALL_DELETE_SIZED, size, block);
}
