#include "process/osfail/held.h"

#include <errno.h>
#include <stdatomic.h>

#include "hakmem.h"
#include "support/check.h"
#include "support/pattern.h"

/* Writes and compares every byte of the first 8 KiB, one word per page up to 64 KiB, and one word per 64 KiB above, because a sweep runs
 * thousands of times. The value of a byte depends only on its offset and the block's seed, so that a prefix stays correct after realloc. */
enum { PAGE = 4096, DENSE = 2 * PAGE, UNIT = 16 * PAGE };

bool held_healthy = true;
static _Atomic uint64_t next_seed;

static size_t step_at(size_t offset) { return offset < UNIT ? PAGE : UNIT; }

static void fill(const struct held *held, size_t from)
{
    size_t dense = held->size < DENSE ? held->size : DENSE;
    pattern_fill_range(held->block, from, dense, held->seed);
    for (size_t at = DENSE; at + 8 <= held->size; at += step_at(at)) {
        uint64_t word = pattern_word(held->seed, at / 8);
        memcpy((char *)held->block + at, &word, sizeof word);
    }
}

static bool holds(const struct held *held, size_t size)
{
    if (!pattern_holds(held->block, size < DENSE ? size : DENSE, held->seed))
        return false;
    for (size_t at = DENSE; at + 8 <= size; at += step_at(at)) {
        uint64_t word;
        memcpy(&word, (char *)held->block + at, sizeof word);
        if (word != pattern_word(held->seed, at / 8))
            return false;
    }
    return true;
}

static void *get(enum held_call call, size_t *align, size_t size)
{
    void *block = NULL;
    switch (call) {
    case HELD_MALLOC: return hak_malloc(size);
    case HELD_CALLOC: return size % 4 == 0 ? hak_calloc(size / 4, 4) : hak_calloc(1, size);
    case HELD_MEMALIGN: return hak_memalign(*align, size);
    case HELD_POSIX_MEMALIGN: errno = hak_posix_memalign(&block, *align, size); return block;
    case HELD_VALLOC: *align = PAGE; return hak_valloc(size);
    case HELD_PVALLOC: *align = PAGE; return hak_pvalloc(size);
    }
    return NULL;
}

bool held_get(struct held *held, enum held_call call, size_t align, size_t size)
{
    errno = 0;
    *held = (struct held){get(call, &align, size), size, atomic_fetch_add(&next_seed, 1) + 1};
    if (held->block == NULL) {
        int error = errno;
        CHECK(error == ENOMEM, "NULL and errno %d", error);
        CHECK(!held_healthy, "%zu bytes refused by a healthy system", size);
        return false;
    }
    CHECK(((uintptr_t)held->block & (align - 1)) == 0, "%p is not aligned to %zu", held->block, align);
    CHECK(hak_malloc_usable_size(held->block) >= size, "%zu of %zu bytes usable", hak_malloc_usable_size(held->block),
          size);
    if (call == HELD_CALLOC)
        CHECK(all_zero(held->block, size), "calloc of %zu is not zero", size);
    fill(held, 0);
    return true;
}

bool held_resize(struct held *held, size_t size)
{
    errno = 0;
    void *moved = hak_realloc(held->block, size);
    int error = errno;
    CHECK(moved == NULL || error == 0, "a realloc to %zu bytes succeeded and set errno to %d", size, error);
    if (moved == NULL) {
        CHECK(error == ENOMEM, "NULL and errno %d", error);
        CHECK(!held_healthy, "realloc to %zu bytes refused by a healthy system", size);
        held_check(held);
        return false;
    }
    size_t kept = size < held->size ? size : held->size;
    held->block = moved;
    held->size = size;
    CHECK(holds(held, kept), "realloc to %zu lost what was there", size);
    CHECK(hak_malloc_usable_size(moved) >= size, "%zu of %zu bytes usable", hak_malloc_usable_size(moved), size);
    fill(held, kept);
    return true;
}

void held_check(const struct held *held)
{
    CHECK(held->block == NULL || holds(held, held->size), "a block of %zu bytes changed", held->size);
}

void held_put(struct held *held)
{
    held_check(held);
    errno = 4711;
    hak_free(held->block);
    CHECK(errno == 4711, "free changed errno to %d", errno);
    held->block = NULL;
}
