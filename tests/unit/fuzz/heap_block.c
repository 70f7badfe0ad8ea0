#include "unit/fuzz/heap_block.h"

#include <errno.h>

#include "unit/fuzz/heap_names.h"
#include "unit/fuzz/shadow.h"
#include "support/pattern.h"

enum { ERRNO_BEFORE = 4711, WHOLE = 1024, STRIDE = 1024, FAR = 64 << 10, VERY_FAR = 1 << 20 };

struct heap_rules heap_rules;

/* Returns the distance of the words that carry the pattern in a block. Small blocks carry the pattern everywhere. Other blocks carry it at both
 * ends, and in single words on many pages. */
static size_t stride_of(size_t size) { return size <= FAR ? STRIDE : size <= VERY_FAR ? 16 * STRIDE : 64 * STRIDE; }

static void fill_words(void *p, size_t from, size_t to, size_t stride, uint64_t seed)
{
    for (size_t at = from; at + 8 <= to; at += stride)
        pattern_fill_range(p, at, at + 8, seed);
}

static bool words_hold(const char *p, size_t from, size_t to, size_t stride, uint64_t seed)
{
    uint64_t difference = 0;
    for (size_t at = from; at + 8 <= to; at += stride) {
        uint64_t word;
        memcpy(&word, p + at, sizeof word);
        difference |= word ^ pattern_word(seed, at / 8);
    }
    return difference == 0;
}

static void fill(const struct heap_block *block)
{
    size_t size = block->known;
    if (size <= WHOLE) {
        pattern_fill(block->p, size, block->seed);
        return;
    }
    pattern_fill(block->p, 256, block->seed);
    fill_words(block->p, 256, size, stride_of(size), block->seed);
    pattern_fill_range(block->p, size - 64, size, block->seed);
}

/* Returns true if the first `kept` bytes still have the pattern of a block of `size` bytes. */
static bool holds(const char *p, size_t size, size_t kept, uint64_t seed)
{
    if (size <= WHOLE)
        return pattern_holds(p, kept, seed);
    if (kept < 256)
        return pattern_holds(p, kept, seed);
    bool end = true;
    if (kept == size)
        for (size_t at = size - 64; at < size; at++)
            end = end && (unsigned char)p[at] == pattern_byte(seed, at);
    return end && pattern_holds(p, 256, seed) && words_hold(p, 256, kept, stride_of(size), seed);
}

void heap_block_check(const struct heap_block *block)
{
    FUZZ_CHECK(holds(block->p, block->known, block->known, block->seed), "(block %p of %zu bytes)", block->p,
               block->size);
}

/* Returns true if the call returned a block. A call may fail only if memory is refused, and must then set errno. A call that succeeds must keep
 * errno. */
static bool was_given(const void *p, size_t size)
{
    if (p == NULL) {
        FUZZ_CHECK(errno == ENOMEM, "(%d)", errno);
        FUZZ_CHECK(heap_rules.xmay_refuse, "(%zu bytes)", size);
        return false;
    }
    FUZZ_CHECK(errno == ERRNO_BEFORE, "(%d)", errno);
    return true;
}

static void enter(struct heap_block *block)
{
    FUZZ_CHECK((uintptr_t)block->p % block->align == 0, "(%p, %zu)", block->p, block->align);
    FUZZ_CHECK(shadow_enter(block->p, block->size), "(%p, %zu bytes)", block->p, block->size);
    block->known = block->size;
    block->seed = ++heap_rules.xseed;
    fill(block);
}

static void *by_posix_memalign(size_t align, size_t size)
{
    void *p = &p, *before = p;
    int result = heap_posix_memalign(&p, align, size);
    FUZZ_CHECK(errno == ERRNO_BEFORE, "(%d)", errno);
    FUZZ_CHECK(result == 0 || (result == ENOMEM && p == before), "(%d)", result);
    if (result == 0)
        return p;
    errno = result;
    return NULL;
}

static void *get_aligned(enum heap_how how, size_t align, size_t size)
{
    switch (how) {
    case HEAP_ALIGNED_ALLOC: return heap_aligned_alloc(align, size);
    case HEAP_POSIX_MEMALIGN: return by_posix_memalign(align, size);
    case HEAP_NEW_ALIGNED: return heap_new_aligned(size, align);
    case HEAP_NEW_ARRAY_ALIGNED: return heap_new_array_aligned(size, align);
    case HEAP_NEW_ALIGNED_NOTHROW: return heap_new_aligned_nothrow(size, align, "");
    case HEAP_NEW_ARRAY_ALIGNED_NOTHROW: return heap_new_array_aligned_nothrow(size, align, "");
    default: return heap_memalign(align, size);
    }
}

static void *get(enum heap_how how, size_t align, size_t size)
{
    switch (how) {
    case HEAP_MALLOC: return heap_malloc(size);
    case HEAP_CALLOC: return size % 3 == 0 ? heap_calloc(3, size / 3) : heap_calloc(size, 1);
    case HEAP_REALLOC: return heap_realloc(NULL, size);
    case HEAP_REALLOCARRAY: return heap_reallocarray(NULL, size, 1);
    case HEAP_NEW: return heap_new(size);
    case HEAP_NEW_ARRAY: return heap_new_array(size);
    case HEAP_NEW_NOTHROW: return heap_new_nothrow(size, "");
    case HEAP_NEW_ARRAY_NOTHROW: return heap_new_array_nothrow(size, "");
    case HEAP_VALLOC: return heap_valloc(size);
    case HEAP_PVALLOC: return heap_pvalloc(size);
    default: return get_aligned(how, align, size);
    }
}

/* Returns true if this form of allocation ends the program or throws an exception when memory is refused. */
static bool throws(enum heap_how how)
{
    return how == HEAP_NEW || how == HEAP_NEW_ARRAY || how == HEAP_NEW_ALIGNED || how == HEAP_NEW_ARRAY_ALIGNED;
}

void heap_block_get(struct heap_block *block, enum heap_how how, size_t align, size_t size)
{
    if (throws(how) && heap_rules.xmay_refuse)
        how = HEAP_MALLOC;
    bool by_page = how == HEAP_VALLOC || how == HEAP_PVALLOC;
    *block = (struct heap_block){.size = size,
                                 .align = by_page               ? 4096
                                          : how >= HEAP_ALIGNED ? align
                                                                : 16,
                                 .how = (uint8_t)how};
    errno = ERRNO_BEFORE;
    block->p = get(how, align, size);
    if (!was_given(block->p, size))
        return;
    if (how == HEAP_PVALLOC)
        block->size = (size + 4095) / 4096 * 4096;
    heap_rules.xlive++;
    if (how == HEAP_CALLOC)
        FUZZ_CHECK(all_zero(block->p, size), "(%p, %zu bytes)", block->p, size);
    enter(block);
}

void heap_block_ask(struct heap_block *block)
{
    errno = ERRNO_BEFORE;
    size_t usable = heap_usable_size(block->p);
    FUZZ_CHECK(usable >= block->known && errno == ERRNO_BEFORE, "(%zu of %zu)", usable, block->known);
    heap_block_check(block);
    FUZZ_CHECK(shadow_leave(block->p, block->known));
    FUZZ_CHECK(shadow_enter(block->p, usable), "(%p, %zu bytes usable)", block->p, usable);
    block->known = usable;
    fill(block);
}

static void put_new(struct heap_block *block, unsigned way)
{
    bool array = block->how == HEAP_NEW_ARRAY || block->how == HEAP_NEW_ARRAY_NOTHROW;
    if (way % 2 == 0)
        array ? heap_delete_array(block->p) : heap_delete(block->p);
    else
        array ? heap_delete_array_sized(block->p, block->size) : heap_delete_sized(block->p, block->size);
}

static void put_new_aligned(struct heap_block *block, unsigned way)
{
    bool array = block->how == HEAP_NEW_ARRAY_ALIGNED || block->how == HEAP_NEW_ARRAY_ALIGNED_NOTHROW;
    if (way % 2 == 0)
        array ? heap_delete_array_aligned(block->p, block->align) : heap_delete_aligned(block->p, block->align);
    else
        array ? heap_delete_array_aligned_sized(block->p, block->size, block->align)
              : heap_delete_aligned_sized(block->p, block->size, block->align);
}

static void put_plain(struct heap_block *block, unsigned way)
{
    bool aligned = block->how >= HEAP_VALLOC;
    if (way % 4 == 0 && aligned && block->how != HEAP_PVALLOC)
        heap_free_aligned_sized(block->p, block->align, block->size);
    else if (way % 4 == 0 && !aligned)
        heap_free_sized(block->p, block->size);
    else if (way % 16 == 1)
        FUZZ_CHECK(heap_realloc(block->p, 0) == NULL);
    else
        heap_free(block->p);
}

void heap_block_put(struct heap_block *block, unsigned way)
{
    heap_block_check(block);
    FUZZ_CHECK(shadow_leave(block->p, block->known), "(%p)", block->p);
    errno = ERRNO_BEFORE;
    if (block->how >= HEAP_NEW_ALIGNED)
        put_new_aligned(block, way);
    else if (block->how >= HEAP_NEW && block->how <= HEAP_NEW_ARRAY_NOTHROW)
        put_new(block, way);
    else
        put_plain(block, way);
    FUZZ_CHECK(errno == ERRNO_BEFORE, "(%d)", errno);
    heap_rules.xlive--;
    block->p = NULL;
}

void heap_block_resize(struct heap_block *block, size_t size, bool array)
{
    struct heap_block old = *block;
    heap_block_check(block);
    FUZZ_CHECK(shadow_leave(block->p, block->known), "(%p)", block->p);
    errno = ERRNO_BEFORE;
    size = size != 0 ? size : 1;
    block->p = array ? heap_reallocarray(old.p, 1, size) : heap_realloc(old.p, size);
    if (!was_given(block->p, size)) {
        FUZZ_CHECK(size > old.size, "(%zu to %zu: a block never fails to shrink)", old.size, size);
        *block = old;
        FUZZ_CHECK(shadow_enter(block->p, block->known), "(%p)", block->p);
        heap_block_check(block);
        return;
    }
    FUZZ_CHECK(holds(block->p, old.known, size < old.known ? size : old.known, old.seed),
               "(%zu to %zu bytes, %p to %p)", old.size, size, old.p, block->p);
    block->size = size;
    block->align = 16;
    block->how = HEAP_REALLOC;
    enter(block);
}

void heap_refuse_absurd(unsigned which)
{
    static const size_t sizes[] = {SIZE_MAX,        PTRDIFF_MAX,     (size_t)PTRDIFF_MAX + 1,
                                   (size_t)1 << 62, SIZE_MAX - 4096, (size_t)1 << 48};
    /* `volatile` hides the value from the compiler, which would warn about it. */
    volatile size_t much = (size_t)1 << 33;
    size_t size = sizes[which % (sizeof sizes / sizeof sizes[0])];
    void *p = &p;
    errno = ERRNO_BEFORE;
    switch (which / 8 % 6) {
    case 0: p = heap_malloc(size); break;
    case 1: p = heap_calloc(size / 2, 2); break;
    case 2: p = heap_realloc(NULL, size); break;
    case 3: p = heap_memalign(4096, size); break;
    case 4: p = heap_calloc(much, much); break;
    default: p = heap_new_nothrow(size, ""); break;
    }
    FUZZ_CHECK(p == NULL && errno == ENOMEM, "(%zu bytes: %p)", size, p);
    void *kept = &p;
    FUZZ_CHECK(heap_posix_memalign(&kept, 24, 8) == EINVAL && heap_posix_memalign(&kept, 2, 8) == EINVAL && kept == &p);
}
