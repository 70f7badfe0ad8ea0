#include "unit/fuzz/shadow.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { QUANTUM_SHIFT = 4, PART_SHIFT = 21, PART_WORDS = 1 << (PART_SHIFT - QUANTUM_SHIFT - 6), PARTS = 1 << 14 };

/* A part describes 2 MiB of the address space, with a bit for each 16 bytes. */
static struct part {
    _Atomic uintptr_t xnumber; /* 0: unused */
} * parts;
static _Atomic uint64_t (*words)[PART_WORDS];

static void *pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

void shadow_begin(void)
{
    parts = pages(PARTS * sizeof *parts);
    words = pages(PARTS * sizeof *words);
}

/* Returns the words of the part that describes an address. Words that belong to a part belong to it until the process ends. */
static _Atomic uint64_t *words_of(uintptr_t address)
{
    uintptr_t number = address >> PART_SHIFT;
    for (size_t at = number * 0x9e3779b1 % PARTS;; at = (at + 1) % PARTS) {
        uintptr_t found = atomic_load_explicit(&parts[at].xnumber, memory_order_acquire);
        if (found == 0 && atomic_compare_exchange_strong(&parts[at].xnumber, &found, number))
            found = number;
        if (found == number)
            return words[at];
    }
}

/* Flips bits of a word. Returns false if not all of them had the value `set`. No atomic operation is needed if the whole word belongs to one
 * block. */
static bool flip(_Atomic uint64_t *word, uint64_t bits, bool set)
{
    uint64_t before;
    if (bits == UINT64_MAX) {
        before = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, before ^ bits, memory_order_relaxed);
    } else {
        before = atomic_fetch_xor_explicit(word, bits, memory_order_relaxed);
    }
    return (before & bits) == (set ? bits : 0);
}

static bool flip_all(const void *block, size_t size, bool set)
{
    uintptr_t at = (uintptr_t)block >> QUANTUM_SHIFT,
              end = ((uintptr_t)block + (size != 0 ? size - 1 : 0)) >> QUANTUM_SHIFT;
    bool all = true;
    _Atomic uint64_t *part = words_of(at << QUANTUM_SHIFT);
    for (; at <= end; at = (at | 63) + 1) {
        unsigned first = at % 64, last = end - at < 63 - first ? first + (unsigned)(end - at) : 63;
        size_t word = at / 64 % PART_WORDS;
        if (word == 0 && first == 0)
            part = words_of(at << QUANTUM_SHIFT);
        all = flip(&part[word], (UINT64_MAX >> (63 - last)) & (UINT64_MAX << first), set) && all;
    }
    return all;
}

bool shadow_enter(const void *block, size_t size) { return flip_all(block, size, false); }
bool shadow_leave(const void *block, size_t size) { return flip_all(block, size, true); }
