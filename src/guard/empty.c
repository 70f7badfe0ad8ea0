/* Gives each block of 0 bytes an address in a range that nothing may touch. */
#include "guard/empty.h"

#include "base/bits.h"
#include "guard/states.h"
#include "os/os.h"

enum { STEP = 16, EMPTIES = 1 << 16 };

static struct {
    uintptr_t start; /* 0: none */
    _Atomic uint64_t *used;
    _Atomic uint32_t xnext; /* the word where the last one was found */
} empties;

bool hk_empties_begin(void)
{
    empties.used = hk_os.map(hk_in_system_pages(EMPTIES / 8));
    void *start = empties.used != NULL ? hk_os.map(EMPTIES * STEP) : NULL;
    if (start == NULL || !hk_os.bar(start, EMPTIES * STEP))
        return false;
    empties.start = (uintptr_t)start;
    return true;
}

bool hk_is_empty(const void *p) { return empties.start != 0 && (uintptr_t)p - empties.start < EMPTIES * STEP; }

static void *take_in(_Atomic uint64_t *word)
{
    uint64_t used = hk_load(*word);
    while (used != UINT64_MAX) {
        uint64_t bit = ~used & (used + 1);
        if (atomic_compare_exchange_weak_explicit(word, &used, used | bit, memory_order_acquire, memory_order_relaxed))
            return (void *)(empties.start + (size_t)((word - empties.used) * 64 + (ptrdiff_t)hk_ctz64(bit)) * STEP);
    }
    return NULL;
}

void *hk_empty_alloc(void)
{
    uint32_t first = hk_load(empties.xnext);
    for (uint32_t i = 0; empties.start != 0 && i < EMPTIES / 64; i++) {
        uint32_t word = (first + i) % (EMPTIES / 64);
        void *p = take_in(&empties.used[word]);
        if (p != NULL) {
            hk_store(empties.xnext, word);
            return p;
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
