/* Defines malloc, calloc, realloc, the aligned forms and malloc_trim, and the hak_ functions that do the same. */
#include <errno.h>
#include "api/entry.h"
#include "api/instrumented.h"
#include "api/kinds.h"
#include "hakmem.h"
#include "report/report.h"
#include "runtime/lifecycle.h"
#include "span/bootstrap.h"

static HK_COLD void note_refusal(size_t size)
{
    HK_COUNT(out_of_memory, 1);
    HK_TRACE(&hk_ring_shared, refuse, size, 0);
    /* A size that no address space can hold is not reported, because its refusal does not mean that memory is short. */
    if (size < (size_t)1 << HK_ADDRESS_BITS)
        hk_report_out_of_memory(size);
}

HK_COLD void *hk_refuse(size_t size)
{
    if (!hk_relocated())
        return NULL; /* errno cannot be set before relocation, because it lies in thread-local storage */
    note_refusal(size);
    return hk_failed(ENOMEM);
}

HK_INLINE void *alloc(struct hk_request *request)
{
    return HK_LIKELY(hk_mode_is_plain()) ? hk_plain_serve(request) : hk_instrumented_alloc(request);
}

/* Allocates a block for malloc after a miss. First tries to refill the bin without a struct hk_request, because filling in the struct takes time. */
HK_INLINE void *malloc_behind_miss(size_t size, void *caller)
{
    if (HK_UNLIKELY(!hk_mode_is_plain()))
        return hk_instrumented_malloc(size, caller);
    void *block = hk_plain_refill(size);
    if (HK_LIKELY(block != NULL))
        return block;
    struct hk_request request = {.size = size, .align = HK_FINE_STEP, .caller = caller};
    return hk_plain_alloc(&request);
}

static HK_NOINLINE void *malloc_or_refuse(size_t size, void *caller)
{
    void *block = malloc_behind_miss(size, caller);
    return HK_LIKELY(block != NULL) ? block : hk_refuse(size);
}

HK_NOINLINE void *hk_malloc_slow(size_t size)
{
    void *block = hk_hit_malloc_coarse(size);
    return HK_LIKELY(block != NULL) ? block : malloc_or_refuse(size, HK_CALLER);
}

HK_NOINLINE void *hk_alloc_slow(struct hk_request *request)
{
    void *block = request->align <= HK_FINE_STEP ? hk_hit_malloc_coarse(request->size) : NULL;
    return HK_LIKELY(block != NULL) ? block : alloc(request);
}

/* Returns an aligned block, or NULL if memory is refused. `align` is a power of two. */
static void *alloc_aligned(size_t align, size_t size, void *caller)
{
    struct hk_request request = {.size = size, .align = hk_max(align, HK_FINE_STEP), .caller = caller};
    void *block = align <= HK_FINE_STEP ? hk_hit_malloc(size) : NULL;
    return block != NULL ? block : alloc(&request);
}

static HK_NOINLINE void *alloc_aligned_or_refuse(size_t align, size_t size, void *caller)
{
    void *block = alloc_aligned(align, size, caller);
    return HK_LIKELY(block != NULL) ? block : hk_refuse(size);
}

HK_EXPORT const char *hak_version(void) { return HK_VERSION; }

/* malloc, free, new and delete begin at a cache line, because a loop of malloc and free was up to a third slower at other places. */
HK_EXPORT HK_ALIGNED(HK_CACHE_LINE) void *hak_malloc(size_t size)
{
    void *block = hk_hit_malloc_of(&size);
    return HK_LIKELY(block != NULL) ? block : hk_malloc_slow(size);
}

static HK_NOINLINE void *calloc_slow(size_t bytes, void *caller)
{
    struct hk_request request = {.size = bytes, .align = HK_FINE_STEP, .caller = caller};
    void *block = alloc(&request);
    if (HK_UNLIKELY(block == NULL))
        return hk_refuse(bytes);
    if (request.zeroed)
        return block;
    /* Calls memset if the guard checks contents, because hk_zero() may write beyond the requested bytes, and thus overwrite the canary. */
    return HK_UNLIKELY(hk_guard.contents) ? memset(block, 0, bytes) : hk_zero(block, bytes);
}

HK_EXPORT void *hak_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (HK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return hk_refuse(SIZE_MAX);
    void *block = hk_hit_malloc(bytes);
    return HK_UNLIKELY(block == NULL) ? calloc_slow(bytes, HK_CALLER) : hk_inline_zero(block, bytes);
}

/* Resizes a block before the start. Copies in a loop, because memcpy cannot be called until the loader has relocated the C library. */
static HK_COLD void *bootstrap_realloc(const char *block, size_t size)
{
    volatile char *moved = hk_bootstrap_alloc(size, HK_FINE_STEP);
    size_t keep = hk_min(size, hk_bootstrap_size(block));
    for (size_t i = 0; moved != NULL && i < keep; i++)
        moved[i] = block[i];
    return (void *)(uintptr_t)moved;
}

static void *realloc_slow(void *block, size_t size);

void *hk_move_exactly(void *to, void *block, size_t bytes)
{
    if (HK_UNLIKELY(to == NULL))
        return NULL;
    memcpy(to, block, bytes);
    hak_free(block);
    return to;
}

HK_INLINE void *resize_in_place(void *block, size_t size, size_t now, void *caller)
{
    return HK_LIKELY(hk_mode_is_plain()) ? hk_plain_resize(block, size, now)
                                         : hk_instrumented_resize(block, size, now, caller);
}

/* Resizes a block after memory for a copy was refused. A block that shrinks stays as it is. For a block that grows, tries once more to grow it in
 * place, because growth needs less memory than a copy, and because idle memory was returned to the system in between. */
static HK_COLD void *resize_without_copy(void *block, size_t size, size_t now, void *caller)
{
    if (size <= now)
        return block;
    void *resized = resize_in_place(block, size, now, caller);
    return resized != NULL ? resized : hk_refuse(size);
}

/* Copies a block to a new block after a miss. If memory is refused, tries to resize the old block in place, and sets errno only if this fails too. */
static HK_NOINLINE void *copy_after_miss(void *block, size_t size, size_t now, void *caller)
{
    int saved_errno = errno;
    void *to = hk_hit_malloc_coarse(size);
    if (to == NULL)
        to = malloc_behind_miss(size, caller);
    errno = saved_errno;
    return HK_UNLIKELY(to == NULL) ? resize_without_copy(block, size, now, caller)
                                   : hk_move_exactly(to, block, hk_min(size, now));
}

/* Copies a block to a new block, and frees the old block. A size of 0 only frees the block. */
static HK_NOINLINE void *copy(void *block, size_t size, size_t now)
{
    if (HK_UNLIKELY(size == 0))
        return realloc_slow(block, size);
    void *moved = hk_hit_malloc(size);
    if (HK_UNLIKELY(moved == NULL))
        return copy_after_miss(block, size, now, HK_CALLER);
    hk_inline_copy(moved, block, hk_min(size, now));
    hk_free(block);
    return moved;
}

static HK_COLD void *realloc_guarded(void *block, size_t size, void *caller)
{
    struct hk_request request = {.size = size, .align = HK_FINE_STEP, .caller = caller};
    void *resized = hk_guarded_realloc(block, &request);
    if (resized != NULL || errno == EINVAL || hk_heaps_has(block)) /* a user heap has counted the refusal already */
        return resized;
    return hk_refuse(size);
}

static HK_NOINLINE void *realloc_slow(void *block, size_t size)
{
    block = HK_UNTAGGED(block);
    if (block == NULL)
        return hak_malloc(size);
    if (HK_UNLIKELY(!hk_relocated()))
        return bootstrap_realloc(block, size);
    if (size == 0) {
        hak_free(block);
        return NULL;
    }
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_GUARD)))
        return realloc_guarded(block, size, HK_CALLER);
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    enum hk_block_kind kind = hk_block_kind_of(block, entry);
    size_t now = hk_block_size(HK_CALL_REALLOC, block, entry, kind);
    if (HK_UNLIKELY(hk_block_resize_of(kind) == HK_RESIZE_HEAP))
        return hk_heap_resized(block, size, HK_CALLER);
    if (HK_UNLIKELY(hk_block_resize_of(kind) == HK_RESIZE_COPY))
        return hk_move_exactly(hak_malloc(size), block, hk_min(size, now));
    void *resized = resize_in_place(block, size, now, HK_CALLER);
    return resized != NULL ? resized : copy(block, size, now);
}

/* Resizes a block outside the window. Tries a hit for realloc(NULL, size), because growing buffers often begin with this call. */
static HK_NOINLINE void *realloc_elsewhere(void *block, size_t size)
{
    void *fresh = block == NULL ? hk_hit_malloc(size) : NULL;
    return fresh != NULL ? fresh : realloc_slow(block, size);
}

HK_EXPORT void *hak_realloc(void *block, size_t size)
{
    uintptr_t place = (uintptr_t)block - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.hits)))
        return realloc_elsewhere(block, size);
    HK_READ_NO_EARLIER();
    uint32_t entry = hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
    unsigned class = hk_entry_class(entry);
    if (HK_UNLIKELY(!hk_entry_is_plain(entry)) || HK_UNLIKELY(class >= HK_FINE_CLASSES))
        return realloc_slow(block, size);
    size_t now = hk_classes[class].size;
    return hk_stays(size, now) ? block : copy(block, size, now);
}

HK_EXPORT void *hak_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? hk_refuse(SIZE_MAX) : hak_realloc(block, bytes);
}

HK_EXPORT void *hak_memalign(size_t alignment, size_t size)
{
    if (alignment > SIZE_MAX / 2 + 1)
        return hk_failed(EINVAL);
    return alloc_aligned_or_refuse(hk_pow2_from(alignment), size, HK_CALLER);
}

HK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size) { return hak_memalign(alignment, size); }

HK_EXPORT int hak_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || !hk_is_pow2(alignment))
        return EINVAL;
    void *aligned = alloc_aligned(alignment, size, HK_CALLER);
    if (aligned == NULL) {
        if (hk_relocated())
            note_refusal(size);
        return ENOMEM; /* keeps errno, because posix_memalign() must not change it */
    }
    *block = aligned;
    return 0;
}

HK_EXPORT void *hak_valloc(size_t size) { return alloc_aligned_or_refuse(hk_system_page(), size, HK_CALLER); }

HK_EXPORT void *hak_pvalloc(size_t size)
{
    size_t page = hk_system_page();
    if (size > PTRDIFF_MAX - page)
        return hk_refuse(SIZE_MAX);
    return alloc_aligned_or_refuse(page, hk_align_up(hk_max(size, 1), page), HK_CALLER);
}

HK_EXPORT size_t hak_malloc_usable_size(void *block)
{
    block = HK_UNTAGGED(block);
    if (block == NULL)
        return 0;
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_GUARD)))
        return hk_guarded_usable_size(block);
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    enum hk_block_kind kind = hk_block_kind_of(block, entry);
    size_t bytes = hk_block_size(HK_CALL_USABLE_SIZE, block, entry, kind);
    return kind == HK_BLOCK_foreign ? 0 : bytes; /* HAKMEM does not know the size of another allocator's block */
}

HK_EXPORT int hak_should_move(const void *block) { return hk_tcache_should_move(hk_tcache_get(), HK_UNTAGGED(block)); }

HK_EXPORT int hak_malloc_trim(size_t keep)
{
    struct hk_tcache *cache = hk_tcache_get();
    if (cache == NULL)
        return 0;
    hk_tcaches_reap(UINT32_MAX);
    return hk_tcache_trim_all(cache, keep) > 0;
}

HK_REPLACES(void *, malloc, (size_t size), hak_malloc)
HK_REPLACES(void *, calloc, (size_t count, size_t size), hak_calloc)
HK_REPLACES(void *, realloc, (void *block, size_t size), hak_realloc)
HK_REPLACES(void *, aligned_alloc, (size_t alignment, size_t size), hak_aligned_alloc)
HK_REPLACES(void *, memalign, (size_t alignment, size_t size), hak_memalign)
HK_REPLACES(int, posix_memalign, (void **block, size_t alignment, size_t size), hak_posix_memalign)
HK_REPLACES(void *, valloc, (size_t size), hak_valloc)
HK_REPLACES(void *, pvalloc, (size_t size), hak_pvalloc)
HK_REPLACES(int, malloc_trim, (size_t keep), hak_malloc_trim)
HK_REPLACES_IN_GLIBC(void *, __libc_malloc, (size_t size), hak_malloc)
HK_REPLACES_IN_GLIBC(void *, __libc_calloc, (size_t count, size_t size), hak_calloc)
HK_REPLACES_IN_GLIBC(void *, __libc_realloc, (void *block, size_t size), hak_realloc)
HK_REPLACES_IN_GLIBC(void *, __libc_memalign, (size_t alignment, size_t size), hak_memalign)
HK_REPLACES_IN_GLIBC(void *, __libc_valloc, (size_t size), hak_valloc)
HK_REPLACES_IN_GLIBC(void *, __libc_pvalloc, (size_t size), hak_pvalloc)
