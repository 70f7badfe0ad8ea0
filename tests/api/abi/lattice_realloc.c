/* Tests realloc, reallocarray, and calloc on memory that was used. This is a part of the lattice (lattice.h). */
#include "lattice.h"

#include "support/pattern.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>

enum { MIB = 1 << 20 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void one_pair(const struct entry_points *api, size_t from, size_t to, bool as_array)
{
    uint64_t seed = from * 31 + to;
    void *p = api->malloc(from);
    CHECK(p != NULL, "malloc of %zu", from);
    if (!p) {
        return;
    }
    pattern_fill(p, from, seed);
    void *q = as_array ? api->reallocarray(p, to, 1) : api->realloc(p, to);
    lattice_block_is_good(api, q, to, 16, as_array ? "reallocarray" : "realloc");
    if (!q) {
        api->free(p);
        return;
    }
    /* lattice_block_is_good has overwritten the first byte and the last usable byte. */
    size_t kept = smaller(from, to);
    if (kept > 0) {
        pattern_fill_range(q, 0, 1, seed);
    }
    if (kept > 0 && kept == api->usable_size(q)) {
        pattern_fill_range(q, kept - 1, kept, seed);
    }
    CHECK(pattern_holds(q, kept, seed), "%zu -> %zu: contents", from, to);
    api->free(q);
}

void lattice_realloc_pairs(const struct entry_points *api)
{
    size_t limit = lattice_full ? 600 : 200;
    for (size_t from = 0; from <= limit; from++) {
        for (size_t to = 1; to <= limit; to++) {
            one_pair(api, from, to, (from + to) % 2);
        }
    }
    size_t size[256];
    size_t sizes = lattice_edge_sizes(size, sizeof size / sizeof size[0], (size_t)4 * MIB);
    size_t step = lattice_full ? 1 : 7;
    for (size_t i = 0; i < sizes; i += step) {
        for (size_t j = 0; j < sizes; j += step) {
            one_pair(api, size[i], size[j], (i + j) % 2);
        }
    }
}

/* Grows and shrinks one block in many steps, as a string builder and a vector do. */
static void grow_and_shrink(const struct entry_points *api, size_t start_alignment)
{
    uint64_t seed = start_alignment;
    size_t size = 1;
    void *p = api->memalign(start_alignment, size);
    CHECK(p != NULL, "memalign %zu", start_alignment);
    if (!p) {
        return;
    }
    pattern_fill(p, size, seed);
    size_t limit = lattice_full ? 24 * MIB : 3 * MIB;
    bool growing = true;
    while (size > 0 && p) {
        size_t next = growing ? size + size / 2 + 3 : size - size / 3 - 1;
        void *q = api->realloc(p, next ? next : 1);
        CHECK(q != NULL, "realloc %zu -> %zu", size, next);
        if (!q) {
            break;
        }
        p = q;
        CHECK(pattern_holds(p, smaller(size, next), seed), "realloc %zu -> %zu, aligned to %zu at first", size, next,
              start_alignment);
        if (next > size) {
            pattern_fill_range(p, size, next, seed);
        }
        size = next;
        growing = growing && size < limit;
    }
    api->free(p);
}

void lattice_realloc_aligned(const struct entry_points *api)
{
    for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
        grow_and_shrink(api, alignment);
    }
}

void lattice_realloc_ends(const struct entry_points *api)
{
    size_t size[256];
    size_t sizes = lattice_edge_sizes(size, sizeof size / sizeof size[0], (size_t)4 * MIB);
    for (size_t i = 0; i < sizes; i++) {
        void *p = api->realloc(NULL, size[i]);
        lattice_block_is_good(api, p, size[i], 16, "realloc(NULL)");
        CHECK(api->realloc(p, 0) == NULL, "glibc frees and gives NULL on realloc(p, 0)");
        p = api->reallocarray(NULL, size[i], 1);
        lattice_block_is_good(api, p, size[i], 16, "reallocarray(NULL)");
        CHECK(api->reallocarray(p, 0, 8) == NULL, "reallocarray(p, 0, 8)");
    }
    /* realloc(p, 0) must free, because a million blocks of 1 MiB would not fit otherwise. */
    for (size_t i = 0; i < (lattice_full ? 1000000 : 100000); i++) {
        void *p = api->malloc(MIB);
        CHECK(p != NULL, "round %zu", i);
        if (!p || api->realloc(p, 0) != NULL) {
            break;
        }
    }
}

static void calloc_after_dirt(const struct entry_points *api, size_t size, size_t blocks)
{
    enum { AT_MOST = 64 };
    void *block[AT_MOST];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < blocks; i++) {
            block[i] = round % 2 ? api->calloc(size, 1) : api->calloc(1, size);
            CHECK(block[i] != NULL, "calloc of %zu", size);
            if (block[i]) {
                CHECK(all_zero(block[i], size), "calloc of %zu, round %d: not zero", size, round);
                memset(block[i], 0xFF, api->usable_size(block[i]));
            }
        }
        for (size_t i = 0; i < blocks; i++) {
            api->free(block[i]);
        }
        /* malloc and realloc also write to the memory that calloc gets next. */
        void *p = api->malloc(size);
        if (p) {
            memset(p, 0xEE, size);
        }
        p = api->realloc(p, size / 2 + 1);
        api->free(p);
    }
}

void lattice_calloc_dirty(const struct entry_points *api)
{
    for (size_t size = 1; size <= 2048; size += lattice_full ? 1 : 7) {
        calloc_after_dirt(api, size, 64);
    }
    size_t size[256];
    size_t sizes = lattice_edge_sizes(size, sizeof size / sizeof size[0], (size_t)(lattice_full ? 16 : 4) * MIB);
    for (size_t i = 0; i < sizes; i++) {
        calloc_after_dirt(api, size[i], size[i] < MIB / 4 ? 16 : 2);
    }
    static const size_t factor[] = {1, 2, 3, 7, 8, 16, 100, 1000, 4096};
    for (size_t i = 0; i < sizeof factor / sizeof factor[0]; i++) {
        for (size_t j = 0; j < sizeof factor / sizeof factor[0]; j++) {
            size_t bytes = factor[i] * factor[j];
            void *p = api->calloc(factor[i], factor[j]);
            CHECK(p && api->usable_size(p) >= bytes && all_zero(p, bytes), "calloc(%zu, %zu)", factor[i], factor[j]);
            if (p) {
                memset(p, 0x77, bytes);
            }
            api->free(p);
        }
    }
}
