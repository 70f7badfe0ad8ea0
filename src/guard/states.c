/* Keeps the state bytes of blocks, and finds the fault of a pointer that the guard refuses. Gives out the addresses of blocks of 0 bytes. */
#include "guard/states.h"
#include "guard/fault_text.h"
#include "span/bootstrap.h"
#include "tcache/tcache.h"

struct hk_guard hk_guard HK_ALIGNED(HK_CACHE_LINE);

#define STATES_OF_CHUNK (HK_CHUNK >> HK_STATE_SHIFT)

static _Atomic(hk_state_byte *) xspare; /* mapped state bytes that no chunk has yet; NULL: none */

HK_COLD hk_state_byte *hk_states_take_spare(void)
{
    hk_state_byte *states = atomic_exchange(&xspare, NULL);
    if (states == NULL && (states = hk_os.map(STATES_OF_CHUNK)) != NULL)
        /* Asks for small pages, because a huge page would hold the states of 32 MiB, and the heap may use only a little of this range. */
        hk_os.advise_huge((void *)states, STATES_OF_CHUNK, false);
    return states;
}

HK_COLD hk_state_byte *hk_state_make_from(uintptr_t address, hk_state_byte *spare)
{
    hk_state_byte *none = NULL;
    if (!atomic_compare_exchange_strong(&hk_state_chunk(address)->xstates, &none, spare) &&
        (spare = atomic_exchange(&xspare, spare)) != NULL)
        hk_os.unmap((void *)spare, STATES_OF_CHUNK);
    return hk_state_at(address);
}

HK_COLD void hk_guard_fault(enum hk_call call, const char *fault, const void *block)
{
    if (!hk_guard.leaves)
        hk_invalid_pointer(call, fault, block);
    HK_COUNT(guard_faults, 1);
    hk_report_pointer(call, fault, block);
    hk_fault_text_call();
}

HK_COLD const char *hk_guard_fault_of(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    if (entry != 0 && hk_entry_class(entry) != HK_CLASS_LARGE) {
        const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
        size_t index;
        if (!hk_slab_begins(slab, (uintptr_t)block, &index) || hk_slab_joins(slab, index))
            return HK_TEXT_inside;
        return state != NULL && hk_load(*state) != HK_STATE_NONE ? HK_TEXT_already_free : HK_TEXT_never_allocated;
    }
    if (state != NULL && (uintptr_t)block % HK_FINE_STEP == 0 && (hk_load(*state) & HK_STATE_FREE) != 0)
        return HK_TEXT_already_free;
    if (hk_bootstrap_size(block) != SIZE_MAX || hk_foreign_readable(block) != 0)
        return NULL;
    return entry != 0 ? HK_TEXT_inside : hk_tcache_foreign_fault(block);
}

/* Each block of 0 bytes gets an address of its own in a range that faults on every access. */
enum { STEP = 16, EMPTIES = 1 << 16 };

static struct {
    uintptr_t start; /* start of the range; 0: none */
    _Atomic uint64_t *used;
    _Atomic uint32_t xnext; /* the word of `used` in which the last free address was found */
} empties;

bool hk_empties_begin(void)
{
    char *start = hk_os.map(EMPTIES * STEP + hk_in_system_pages(EMPTIES / 8));
    if (start == NULL || !hk_os.bar(start, EMPTIES * STEP))
        return false;
    empties.used = (void *)(start + EMPTIES * STEP);
    empties.start = (uintptr_t)start;
    return true;
}

bool hk_is_empty(const void *p) { return empties.start != 0 && (uintptr_t)p - empties.start < EMPTIES * STEP; }

void *hk_empty_alloc(void)
{
    uint32_t first = hk_load(empties.xnext);
    for (uint32_t i = 0; empties.start != 0 && i < EMPTIES / 64; i++) {
        uint32_t word = (first + i) % (EMPTIES / 64);
        uint64_t used = hk_load(empties.used[word]), bit;
        while ((bit = ~used & (used + 1)) != 0)
            if (hk_replace(empties.used[word], &used, used | bit, memory_order_acquire)) {
                hk_store(empties.xnext, word);
                return (void *)(empties.start + ((size_t)word * 64 + hk_ctz64(bit)) * STEP);
            }
    }
    return NULL;
}

void hk_empty_free(enum hk_call call, const void *p)
{
    size_t offset = (uintptr_t)p - empties.start, index = offset / STEP;
    uint64_t bit = (uint64_t)1 << index % 64;
    bool begins = offset % STEP == 0;
    if (begins && (atomic_fetch_and_explicit(&empties.used[index / 64], ~bit, memory_order_release) & bit) != 0)
        return;
    hk_guard_fault(call, begins ? HK_TEXT_already_free : HK_TEXT_inside, p);
}
