/* Tests each function of the family with many sizes. This is a part of the lattice (lattice.h). */
#include "lattice.h"

#include "support/pattern.h"

#include <malloc.h>
#include <stdint.h>

enum { MIB = 1 << 20, NATURAL_ALIGNMENT = 16, PAGE = 4096 };

size_t lattice_edge_sizes(size_t *out, size_t room, size_t limit)
{
    static const int around[] = {-17, -16, -8, -1, 0, 1, 8, 16, 17};
    size_t count = 0;
    for (size_t power = 32; power && power <= limit; power *= 2) {
        for (size_t i = 0; i < sizeof around / sizeof around[0] && count < room; i++) {
            out[count] = power + (size_t)around[i];
            count += out[count] <= limit;
        }
    }
    return count;
}

void lattice_block_is_good(const struct entry_points *api, void *p, size_t size, size_t alignment, const char *from)
{
    CHECK(p != NULL, "%s%s of %zu bytes", api->prefix, from, size);
    if (!p) {
        return;
    }
    CHECK((uintptr_t)p % alignment == 0, "%s%s of %zu bytes at alignment %zu gave %p", api->prefix, from, size,
          alignment, p);
    size_t usable = api->usable_size(p);
    CHECK(usable >= size, "%s%s of %zu bytes can hold only %zu", api->prefix, from, size, usable);
    if (usable) {
        volatile unsigned char *bytes = p;
        bytes[0] = 1;
        bytes[usable - 1] = 2;
        CHECK(bytes[usable - 1] == 2, "%s%s of %zu bytes: its last byte", api->prefix, from, size);
    }
}

static void all_entry_points(const struct entry_points *api, size_t size)
{
    void *p = api->malloc(size);
    lattice_block_is_good(api, p, size, NATURAL_ALIGNMENT, "malloc");
    api->free(p);

    p = api->realloc(NULL, size);
    lattice_block_is_good(api, p, size, NATURAL_ALIGNMENT, "realloc(NULL)");
    if (api->free_sized) {
        api->free_sized(p, size);
    } else {
        api->free(p);
    }

    p = api->reallocarray(NULL, size, 1);
    lattice_block_is_good(api, p, size, NATURAL_ALIGNMENT, "reallocarray(NULL)");
    api->free(p);

    p = api->aligned_alloc(64, size);
    lattice_block_is_good(api, p, size, 64, "aligned_alloc");
    if (api->free_aligned_sized) {
        api->free_aligned_sized(p, 64, size);
    } else {
        api->free(p);
    }

    p = api->memalign(256, size);
    lattice_block_is_good(api, p, size, 256, "memalign");
    api->free(p);

    p = NULL;
    CHECK(api->posix_memalign(&p, 32, size) == 0, "posix_memalign of %zu", size);
    lattice_block_is_good(api, p, size, 32, "posix_memalign");
    api->free(p);

    p = api->valloc(size);
    lattice_block_is_good(api, p, size, PAGE, "valloc");
    api->free(p);

    p = api->pvalloc(size);
    lattice_block_is_good(api, p, (size + PAGE - 1) / PAGE * PAGE, PAGE, "pvalloc");
    api->free(p);
}

static void calloc_of(const struct entry_points *api, size_t size)
{
    void *p = api->calloc(1, size);
    if (p) {
        CHECK(all_zero(p, size), "calloc of %zu bytes is not zero", size);
        memset(p, 0xA5, size);
    }
    lattice_block_is_good(api, p, size, NATURAL_ALIGNMENT, "calloc");
    api->free(p);
}

void lattice_every_size(const struct entry_points *api)
{
    size_t step = 1;
    for (size_t size = 0; size <= MIB; size += step) {
        all_entry_points(api, size);
        step = lattice_full || size < 2 * PAGE ? 1 : 37;
    }
    /* A test of calloc with every size up to 1 MiB would move 1.5 TB. Above 32 KiB (4 KiB in the quick subset), the step is therefore a prime
     * number. */
    for (size_t size = 0; size <= MIB; size += step) {
        calloc_of(api, size);
        step = size < (lattice_full ? 32u : 4u) * 1024 ? 1 : lattice_full ? 97 : 1009;
    }
}

/* Allocates 16 blocks of one size, and fills each up to the last byte that malloc_usable_size promises. */
static void neighbours_of(const struct entry_points *api, size_t size)
{
    enum { BLOCKS = 16 };
    void *block[BLOCKS];
    size_t usable[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = api->malloc(size);
        CHECK(block[i] != NULL, "malloc of %zu bytes", size);
        usable[i] = block[i] ? api->usable_size(block[i]) : 0;
        if (block[i]) {
            pattern_fill(block[i], usable[i], size * BLOCKS + i);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (block[i]) {
            CHECK(pattern_holds(block[i], usable[i], size * BLOCKS + i), "block %zu of %zu bytes was written to", i,
                  size);
            CHECK(api->usable_size(block[i]) == usable[i], "usable size of %zu bytes changed", size);
        }
        api->free(block[i]);
    }
}

void lattice_neighbours(const struct entry_points *api)
{
    size_t step = 1;
    for (size_t size = 0; size <= 2 * MIB; size += step) {
        neighbours_of(api, size);
        if (size >= 2 * PAGE) {
            step = lattice_full ? size / 64 + 1 : size / 8 + 1;
        }
    }
}

void lattice_zero_size(const struct entry_points *api)
{
    enum { BLOCKS = 1000 };
    static void *block[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = i % 3 == 0 ? api->malloc(0) : i % 3 == 1 ? api->calloc(i, 0) : api->realloc(NULL, 0);
        CHECK(block[i] != NULL, "zero bytes, number %zu", i);
        if (i > 0) {
            CHECK(block[i] != block[i - 1], "two blocks of zero bytes at %p", block[i]);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        api->free(block[i]);
    }
    CHECK(api->usable_size(NULL) == 0, "usable size of NULL");
    api->free(NULL);
    if (api->free_sized) {
        api->free_sized(NULL, 100);
    }
    if (api->free_aligned_sized) {
        api->free_aligned_sized(NULL, 64, 128);
    }
}
