#include <errno.h>
#include <string.h>

#include "api/entry.h"
#include "base/bits.h"
#include "base/quanta.h"
#include "big/big.h"
#include "decay/decay.h"
#include "decay/wake.h"
#include "hakmem.h"
#include "os/os.h"
#include "prof/hooks.h"
#include "runtime/exit_report.h"
#include "runtime/learning.h"
#include "runtime/life.h"
#include "runtime/threads.h"
#include "slab/lodge.h"
#include "slab/orphans.h"
#include "slab/slab_heap.h"
#include "span/bootstrap.h"
#include "span/footprint.h"
#include "span/foreign.h"
#include "tcache/pool.h"

#define LARGEST_SMALL_ALIGN HK_SLICE
/* The return address of the exported function; valid in that function and in its tail calls. */
#define CALLER __builtin_return_address(0)

static HK_COLD void note_refusal(size_t size)
{
    HK_COUNT(out_of_memory, 1);
    HK_TRACE(&hk_ring_shared, refuse, size, 0);
    /* A size beyond the address space is no sign that memory is short. */
    if (size < (size_t)1 << HK_ADDRESS_BITS)
        hk_first_refusal_report(size);
}

static bool has_thread_storage(void) { return hk_life_started() || !hk_life_is_bootstrapping(); }

static HK_COLD void *refused(size_t size)
{
    if (!has_thread_storage())
        return NULL; /* errno lies in thread-local storage */
    note_refusal(size);
    errno = ENOMEM;
    return NULL;
}

static void *big_alloc(struct hk_tcache *cache, size_t size, size_t align, bool *zeroed)
{
    void *block = hk_big_alloc(size, align, zeroed);
    if (block != NULL && cache != NULL) {
        HK_COUNT_THREAD(&cache->owner.counts, big_calls, 1);
        if (*zeroed)
            hk_tcache_grew(cache, size);
    } else if (block != NULL)
        HK_COUNT(orphan_calls, 1);
    return block;
}

static HK_COLD void *aligned_instead(struct hk_tcache *cache, unsigned class, void *block)
{
    void *aligned = hk_tcache_alloc_aligned(cache, class);
    hk_tcache_free(cache, block, hk_page_map_lookup((uintptr_t)block));
    return aligned;
}

/* If address space is scarce, a big block's mapping wastes less of it than a span does. */
#define SCARCE_SIZES_TO (128 * HK_KIB)
static size_t class_sizes_to(void)
{
    return HK_LIKELY(!hk_load(hk_footprint.xscarce)) ? HK_LARGE_MAX : SCARCE_SIZES_TO;
}

/* HK_CLASSES for a big block. */
static unsigned class_for(size_t size, size_t align)
{
    return size <= class_sizes_to() && align <= LARGEST_SMALL_ALIGN ? hk_class_of_aligned(size, align) : HK_CLASSES;
}

static void *try_alloc(size_t size, size_t align, bool *zeroed)
{
    unsigned class = class_for(size, align);
    struct hk_tcache *cache = hk_life_cache();
    *zeroed = false;
    if (class == HK_CLASSES)
        return big_alloc(cache, size, align, zeroed);
    if (HK_UNLIKELY(cache == NULL))
        return hk_orphans_alloc(class);
    void *block = hk_tcache_alloc(cache, class, size);
    return HK_LIKELY(((uintptr_t)block & (align - 1)) == 0) ? block : aligned_instead(cache, class, block);
}

/* After a refusal: purges everything and tries once more, as HAKMEM's own dirty memory may exhaust the limit. */
static HK_COLD void *try_again(size_t size, size_t align, bool *zeroed)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (size >= (size_t)1 << HK_ADDRESS_BITS)
        return NULL;
    if (cache != NULL)
        hk_tcache_trim(cache);
    hk_pool_purge();
    hk_decay_all(0);
    (void)hk_footprint_read_limit(); /* the program may have changed it */
    if (cache != NULL)
        hk_tcache_steal_all(cache);
    return try_alloc(size, align, zeroed);
}

/* Allocations before HAKMEM has started, and all allocations while hooks are on. A request that would be a hit is
 * served from the bin here: hooks do not change the program's blocks. */
static HK_NOINLINE void *alloc_at_the_edge(size_t size, size_t align, bool *zeroed, void *caller)
{
    if (!hk_hooks.on) {
        *zeroed = true;
        return hk_life_is_bootstrapping() ? hk_bootstrap_alloc(size, align) : NULL;
    }
    bool hits = size <= HK_FINE_MAX && align <= HK_FINE_STEP;
    *zeroed = false;
    void *block = hits ? hk_hit_malloc_fine(size) : NULL;
    if (block == NULL)
        block = try_alloc(size, align, zeroed);
    if (block == NULL)
        block = try_again(size, align, zeroed);
    if (HK_LIKELY(block != NULL))
        hk_hooks_alloc(HK_EVENT_alloc, block, size, caller);
    return block;
}

/* Every allocation that is neither a hit nor refilled(). NULL if memory is refused. */
static void *alloc(size_t size, size_t align, bool *zeroed, void *caller)
{
    void *block;
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_hooks.on)) || HK_UNLIKELY(!hk_life_started()))
        block = alloc_at_the_edge(size, align, zeroed, caller);
    else if (HK_UNLIKELY((block = try_alloc(size, align, zeroed)) == NULL))
        block = try_again(size, align, zeroed);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick();
    return block;
}

/* The common miss: the thread has a cache, its bin is empty, hooks are off. NULL for all other misses. */
HK_INLINE void *refilled(size_t size)
{
    bool plain = HK_LOAD_SETTLED(hk_window.covered) != 0 && !hk_load(hk_wake_wanted);
    HK_READ_NO_EARLIER();
    if (HK_UNLIKELY(!plain) || HK_UNLIKELY(hk_self->key == HK_NO_KEY))
        return NULL;
    void *block = hk_tcache_refill(hk_container_of(hk_self, struct hk_tcache, hot), hk_class_of(size), size);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick();
    return block;
}

static HK_NOINLINE void *missed(size_t size, void *caller)
{
    bool zeroed;
    void *block = size <= HK_FINE_MAX ? refilled(size) : NULL;
    if (HK_LIKELY(block != NULL))
        return block;
    block = alloc(size, HK_FINE_STEP, &zeroed, caller);
    if (HK_UNLIKELY(hk_load(hk_wake_wanted)))
        hk_background_begin_in_malloc(caller, hk_thread_make);
    return HK_LIKELY(block != NULL) ? block : refused(size);
}

HK_NOINLINE void *hk_malloc_slow(size_t size)
{
    void *block = hk_hit_malloc_coarse(size);
    return HK_LIKELY(block != NULL) ? block : missed(size, CALLER);
}

HK_NOINLINE void *hk_malloc_slow_for(size_t size, void *caller)
{
    void *block = hk_hit_malloc_coarse(size);
    return HK_LIKELY(block != NULL) ? block : missed(size, caller);
}

HK_NOINLINE void *hk_aligned_slow(size_t align, size_t size, void *caller)
{
    bool zeroed;
    void *block = alloc(size, hk_max(align, HK_FINE_STEP), &zeroed, caller);
    return HK_LIKELY(block != NULL) ? block : refused(size);
}

HK_EXPORT const char *hak_version(void) { return HK_VERSION; }

HK_EXPORT void *hak_malloc(size_t size)
{
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : hk_malloc_slow(size);
}

static HK_NOINLINE void *calloc_slow(size_t bytes, void *caller)
{
    bool zeroed = false;
    void *block = bytes <= HK_FINE_MAX ? refilled(bytes) : NULL;
    if (block == NULL)
        block = alloc(bytes, HK_FINE_STEP, &zeroed, caller);
    if (HK_UNLIKELY(block == NULL))
        return refused(bytes);
    return zeroed ? block : hk_quanta_zero(block, bytes);
}

HK_EXPORT void *hak_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (HK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
        return refused(SIZE_MAX);
    void *block = hk_hit_malloc(bytes);
    if (HK_UNLIKELY(block == NULL))
        return calloc_slow(bytes, CALLER);
    return hk_quanta_zero(block, bytes);
}

/* Usable bytes of `block`; for another allocator's block, the readable bytes. Fatal if it is neither. */
static size_t extent(enum hk_call call, const void *block, bool *foreign)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    *foreign = entry == 0;
    if (HK_LIKELY(entry != 0)) {
        if (HK_LIKELY(hk_entry_is_plain(entry)))
            return hk_classes[hk_entry_class(entry)].size;
        if (hk_entry_is_mixed(entry))
            return hk_lodge_bytes(block);
        const struct hk_big_block *big = hk_big_at((uintptr_t)block);
        if (big->d.start != (uintptr_t)block)
            hk_invalid_pointer(call, "pointer inside a block", block);
        return big->requested;
    }
    size_t readable = hk_bootstrap_size(block);
    if (readable == SIZE_MAX)
        readable = hk_foreign_readable(block);
    if (readable == 0)
        hk_invalid_pointer(call, hk_tcache_foreign_fault(block), block);
    return readable;
}

static void *big_resize(void *block, size_t size, size_t extent_now)
{
    struct hk_tcache *cache = hk_life_cache();
    void *resized = hk_big_resize(block, size);
    if (resized != NULL && cache != NULL && size > extent_now)
        hk_tcache_grew(cache, size - extent_now);
    return resized;
}

static void *resize_in_place(void *block, size_t size, size_t extent_now)
{
    if (extent_now <= HK_FINE_MAX)
        return NULL;
    if (hk_entry_class(hk_page_map_lookup((uintptr_t)block)) == HK_CLASS_BIG)
        return big_resize(block, size, extent_now);
    return hk_tcache_resize(hk_life_cache(), block, size) ? block : NULL;
}

/* A loop instead of memcpy: the C library is not relocated yet. */
static HK_COLD void *bootstrap_realloc(const char *block, size_t size)
{
    volatile char *moved = hk_bootstrap_alloc(size, HK_FINE_STEP);
    size_t keep = hk_min(size, hk_bootstrap_size(block));
    for (size_t i = 0; moved != NULL && i < keep; i++)
        moved[i] = block[i];
    return (void *)(uintptr_t)moved;
}

/* True if the block keeps its place: the size fits and wastes at most half of the block. */
HK_INLINE bool stays(size_t size, size_t now) { return size - 1 < now && (size >= now / 2 || now <= 64); }

static void *realloc_slow(void *block, size_t size);

/* Where memory is refused, a block that shrinks stays as it is: the call succeeds, and keeps errno. */
static HK_NOINLINE void *malloc_to_shrink(size_t size, void *caller)
{
    int saved_errno = errno;
    void *moved = hk_malloc_slow_for(size, caller);
    errno = saved_errno;
    return moved;
}

/* Allocates, copies, frees. A size of 0 is a free: realloc_slow() handles it. */
static HK_NOINLINE void *copied(void *block, size_t size, size_t now)
{
    if (HK_UNLIKELY(size == 0))
        return realloc_slow(block, size);
    void *moved = hk_hit_malloc(size);
    if (HK_UNLIKELY(moved == NULL))
        moved = size <= now ? malloc_to_shrink(size, CALLER) : hk_malloc_slow_for(size, CALLER);
    if (HK_UNLIKELY(moved == NULL))
        return size <= now ? block : NULL; /* a block never fails to shrink */
    hk_quanta_copy(moved, block, hk_min(size, now));
    hak_free(block);
    return moved;
}

static void *foreign_realloc(void *block, size_t size, size_t now)
{
    void *moved = hak_malloc(size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, block, hk_min(size, now));
    hak_free(block);
    return moved;
}

/* Resizes without a copy; NULL if that is impossible. */
static void *resized_here(void *block, size_t size, size_t now)
{
    return stays(size, now) ? block : resize_in_place(block, size, now);
}

static HK_COLD void *resize_hooked(void *block, size_t size, size_t now, void *caller)
{
    uint64_t record = hk_hooks_resize_begin(block);
    void *resized = resized_here(block, size, now);
    hk_hooks_resize_end(block, record, resized, size, caller);
    return resized;
}

static HK_NOINLINE void *realloc_slow(void *block, size_t size)
{
    if (block == NULL)
        return hak_malloc(size);
    if (HK_UNLIKELY(!hk_life_started() && hk_life_is_bootstrapping()))
        return bootstrap_realloc(block, size);
    if (size == 0) {
        hak_free(block);
        return NULL;
    }
    bool foreign;
    size_t now = extent(HK_CALL_REALLOC, block, &foreign);
    if (foreign)
        return foreign_realloc(block, size, now);
    void *resized = hk_hooks.on ? resize_hooked(block, size, now, CALLER) : resized_here(block, size, now);
    return resized != NULL ? resized : copied(block, size, now);
}

/* A growing buffer begins with realloc(NULL, size): a hit here too. */
static HK_NOINLINE void *realloc_elsewhere(void *block, size_t size)
{
    void *fresh = block == NULL ? hk_hit_malloc(size) : NULL;
    return fresh != NULL ? fresh : realloc_slow(block, size);
}

HK_EXPORT void *hak_realloc(void *block, size_t size)
{
    uintptr_t place = (uintptr_t)block - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.covered)))
        return realloc_elsewhere(block, size);
    HK_READ_NO_EARLIER();
    uint32_t entry = hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
    unsigned class = hk_entry_class(entry);
    if (HK_UNLIKELY(!hk_entry_is_plain(entry)) || HK_UNLIKELY(class >= HK_FINE_CLASSES))
        return realloc_slow(block, size);
    size_t now = hk_classes[class].size;
    return stays(size, now) ? block : copied(block, size, now);
}

HK_EXPORT void *hak_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return refused(SIZE_MAX);
    return hak_realloc(block, bytes);
}

HK_EXPORT void *hak_memalign(size_t alignment, size_t size)
{
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = HK_FINE_STEP;
    while (power < alignment)
        power *= 2;
    return hk_aligned_slow(power, size, CALLER);
}

HK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size) { return hak_memalign(alignment, size); }

HK_EXPORT int hak_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || !hk_is_pow2(alignment))
        return EINVAL;
    bool zeroed;
    void *aligned = alloc(size, hk_max(alignment, HK_FINE_STEP), &zeroed, CALLER);
    if (aligned == NULL) {
        if (has_thread_storage())
            note_refusal(size);
        return ENOMEM; /* errno is the program's */
    }
    *block = aligned;
    return 0;
}

HK_EXPORT void *hak_valloc(size_t size) { return hk_aligned_slow(HK_PAGE, size, CALLER); }

HK_EXPORT void *hak_pvalloc(size_t size)
{
    if (size > PTRDIFF_MAX - HK_PAGE)
        return refused(SIZE_MAX);
    return hk_aligned_slow(HK_PAGE, hk_align_up(hk_max(size, 1), HK_PAGE), CALLER);
}

HK_EXPORT size_t hak_usable_size(void *block)
{
    bool foreign;
    if (block == NULL)
        return 0;
    size_t bytes = extent(HK_CALL_USABLE_SIZE, block, &foreign);
    return foreign && hk_bootstrap_size(block) == SIZE_MAX ? 0 : bytes;
}

HK_EXPORT int hak_trim(size_t keep)
{
    struct hk_tcache *cache = hk_life_cache();
    if (cache == NULL)
        return 0;
    hk_tcaches_reap(UINT32_MAX);
    size_t bytes = hk_tcache_trim(cache);
    hk_pool_purge();
    return bytes + hk_decay_all(keep) > 0;
}

HK_REPLACES(void *, malloc, (size_t size), hak_malloc)
HK_REPLACES(void *, calloc, (size_t count, size_t size), hak_calloc)
HK_REPLACES(void *, realloc, (void *block, size_t size), hak_realloc)
HK_REPLACES(void *, aligned_alloc, (size_t alignment, size_t size), hak_aligned_alloc)
HK_REPLACES(void *, memalign, (size_t alignment, size_t size), hak_memalign)
HK_REPLACES(int, posix_memalign, (void **block, size_t alignment, size_t size), hak_posix_memalign)
HK_REPLACES(void *, valloc, (size_t size), hak_valloc)
HK_REPLACES(void *, pvalloc, (size_t size), hak_pvalloc)
HK_REPLACES(int, malloc_trim, (size_t keep), hak_trim)
HK_REPLACES(void *, __libc_malloc, (size_t size), hak_malloc)
HK_REPLACES(void *, __libc_calloc, (size_t count, size_t size), hak_calloc)
HK_REPLACES(void *, __libc_realloc, (void *block, size_t size), hak_realloc)
HK_REPLACES(void *, __libc_memalign, (size_t alignment, size_t size), hak_memalign)
HK_REPLACES(void *, __libc_valloc, (size_t size), hak_valloc)
HK_REPLACES(void *, __libc_pvalloc, (size_t size), hak_pvalloc)
