#include <errno.h>
#include <string.h>

#include "api/alloc_slow.h"
#include "api/entry.h"
#include "api/guarded.h"
#include "api/heap_blocks.h"
#include "base/bits.h"
#include "base/quanta.h"
#include "big/big.h"
#include "decay/decay.h"
#include "decay/wake.h"
#include "guard/sampled.h"
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
#include "tcache/pool.h"

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

HK_COLD void *hk_refused_slow(size_t size) { return refused(size); }

static void *alloc(size_t size, size_t align, bool *zeroed, void *caller)
{
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)))
        return hk_guarded_alloc(size, align, HK_KIND_MALLOC, zeroed, caller);
    return hk_alloc_slow(size, align, zeroed, caller);
}

/* The common miss: the thread has a cache, its bin is empty, hooks are off. NULL for all other misses. */
HK_INLINE void *refilled(size_t size)
{
    bool plain = HK_LOAD_SETTLED(hk_gate.plain) != 0 && !hk_load(hk_wake_wanted);
    HK_READ_NO_EARLIER();
    if (HK_UNLIKELY(!plain) || HK_UNLIKELY(hk_self->key == HK_NO_KEY))
        return NULL;
    void *block = hk_tcache_refill(hk_container_of(hk_self, struct hk_tcache, hot), hk_class_of(size), size);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick();
    return block;
}

static HK_NOINLINE void *missed_guarded(size_t size, void *caller)
{
    void *block = hk_guarded_malloc(size, caller);
    return HK_LIKELY(block != NULL) ? block : refused(size);
}

HK_INLINE void *unguarded(size_t size, void *caller)
{
    bool zeroed;
    void *block = size <= HK_FINE_MAX ? refilled(size) : NULL;
    if (HK_LIKELY(block != NULL))
        return block;
    block = alloc(size, HK_FINE_STEP, &zeroed, caller);
    if (HK_UNLIKELY(hk_load(hk_wake_wanted)))
        hk_background_begin_in_malloc(caller, hk_thread_make);
    return block;
}

static HK_NOINLINE void *missed_unguarded(size_t size, void *caller)
{
    void *block = unguarded(size, caller);
    return HK_LIKELY(block != NULL) ? block : refused(size);
}

HK_INLINE void *missed(size_t size, void *caller)
{
    return HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) ? missed_guarded(size, caller) : missed_unguarded(size, caller);
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
    void *block = hk_hit_malloc_of(&size);
    return HK_LIKELY(block != NULL) ? block : hk_malloc_slow(size);
}

/* Where canaries are, one may lie right behind the requested bytes. */
static HK_NOINLINE void *calloc_guarded(size_t bytes, void *caller)
{
    bool zeroed = false, small = bytes <= HK_FINE_MAX;
    void *block = small ? hk_guarded_malloc(bytes, caller)
                        : hk_guarded_alloc(bytes, HK_FINE_STEP, HK_KIND_MALLOC, &zeroed, caller);
    if (HK_UNLIKELY(block == NULL))
        return refused(bytes);
    if (zeroed)
        return block;
    return hk_guard.contents ? memset(block, 0, bytes) : hk_quanta_zero(block, bytes);
}

static HK_NOINLINE void *calloc_slow(size_t bytes, void *caller)
{
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)))
        return calloc_guarded(bytes, caller);
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

enum origin { OF_PROCESS, FOREIGN, OF_OWN_HEAP };

/* Usable bytes of `block`; for another allocator's, the readable bytes; else fatal. A sampled block counts as foreign: it moves. */
static size_t extent(enum hk_call call, const void *block, enum origin *origin)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    *origin = entry == 0 ? FOREIGN : OF_PROCESS;
    if (HK_LIKELY(entry != 0)) {
        if (hk_entry_is_large(entry))
            hk_live_check(call, block);
        if (HK_LIKELY(hk_entry_is_plain(entry)))
            return hk_classes[hk_entry_class(entry)].size;
        if (HK_UNLIKELY(hk_entry_is_heap(entry))) {
            *origin = OF_OWN_HEAP;
            return hk_heaps_bytes(call, block, entry);
        }
        if (hk_entry_is_mixed(entry))
            return hk_lodge_bytes(block);
        const struct hk_big_block *big = hk_big_at((uintptr_t)block);
        if (big->d.start != (uintptr_t)block)
            hk_invalid_pointer(call, "pointer inside a block", block);
        return big->requested;
    }
    return hk_sampled_has(block) ? hk_sampled_size(call, block) : hk_tcache_foreign_extent(call, block);
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

static void *realloc_slow(void *block, size_t size);

/* Where memory is refused, a block that shrinks stays as it is: the call succeeds, and no refusal is counted. */
static HK_NOINLINE void *malloc_to_shrink(size_t size, void *caller)
{
    int saved_errno = errno;
    void *moved = hk_hit_malloc_coarse(size);
    if (moved == NULL)
        moved = HK_LOAD_SETTLED(hk_guard.on) ? hk_guarded_malloc(size, caller) : unguarded(size, caller);
    errno = saved_errno;
    return moved;
}

/* Not by quanta: a sampled block has no room for the rest of the last. */
static void *moved_exactly(void *moved, void *block, size_t bytes)
{
    if (HK_UNLIKELY(moved == NULL))
        return NULL;
    memcpy(moved, block, bytes);
    hak_free(block);
    return moved;
}

static HK_NOINLINE void *copied_after_miss(void *block, size_t size, size_t now, void *caller)
{
    void *moved = size <= now ? malloc_to_shrink(size, caller) : hk_malloc_slow_for(size, caller);
    if (HK_UNLIKELY(moved == NULL))
        return size <= now ? block : NULL; /* a block never fails to shrink */
    return moved_exactly(moved, block, hk_min(size, now));
}

/* Allocates, copies, frees. A size of 0 is a free: realloc_slow() handles it. */
static HK_NOINLINE void *copied(void *block, size_t size, size_t now)
{
    if (HK_UNLIKELY(size == 0))
        return realloc_slow(block, size);
    void *moved = hk_hit_malloc(size);
    if (HK_UNLIKELY(moved == NULL))
        return copied_after_miss(block, size, now, CALLER);
    hk_quanta_copy(moved, block, hk_min(size, now));
    hk_free(block);
    return moved;
}

static HK_COLD void *realloc_guarded(void *block, size_t size, void *caller)
{
    void *resized = hk_guarded_realloc(block, size, caller);
    return resized != NULL || errno == EINVAL ? resized : refused(size);
}

static HK_NOINLINE void *realloc_slow(void *block, size_t size)
{
    block = HK_UNTAGGED(block);
    if (block == NULL)
        return hak_malloc(size);
    if (HK_UNLIKELY(!hk_life_started() && hk_life_is_bootstrapping()))
        return bootstrap_realloc(block, size);
    if (size == 0) {
        hak_free(block);
        return NULL;
    }
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)))
        return realloc_guarded(block, size, CALLER);
    enum origin origin;
    size_t now = extent(HK_CALL_REALLOC, block, &origin);
    if (HK_UNLIKELY(origin == OF_OWN_HEAP))
        return hk_heap_resized(block, size);
    if (origin == FOREIGN)
        return moved_exactly(hak_malloc(size), block, hk_min(size, now));
    void *resized = hk_resize_slow(block, size, now, CALLER);
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
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.hits)))
        return realloc_elsewhere(block, size);
    HK_READ_NO_EARLIER();
    uint32_t entry = hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
    unsigned class = hk_entry_class(entry);
    if (HK_UNLIKELY(!hk_entry_is_plain(entry)) || HK_UNLIKELY(class >= HK_FINE_CLASSES))
        return realloc_slow(block, size);
    size_t now = hk_classes[class].size;
    return hk_stays(size, now) ? block : copied(block, size, now);
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

HK_EXPORT void *hak_valloc(size_t size) { return hk_aligned_slow(hk_system_page(), size, CALLER); }

HK_EXPORT void *hak_pvalloc(size_t size)
{
    size_t page = hk_system_page();
    if (size > PTRDIFF_MAX - page)
        return refused(SIZE_MAX);
    return hk_aligned_slow(page, hk_align_up(hk_max(size, 1), page), CALLER);
}

HK_EXPORT size_t hak_usable_size(void *block)
{
    enum origin origin;
    block = HK_UNTAGGED(block);
    if (block == NULL)
        return 0;
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)))
        return hk_guarded_usable_size(block);
    size_t bytes = extent(HK_CALL_USABLE_SIZE, block, &origin);
    return origin == FOREIGN && !hk_sampled_has(block) && hk_bootstrap_size(block) == SIZE_MAX ? 0 : bytes;
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
HK_REPLACES_IN_GLIBC(void *, __libc_malloc, (size_t size), hak_malloc)
HK_REPLACES_IN_GLIBC(void *, __libc_calloc, (size_t count, size_t size), hak_calloc)
HK_REPLACES_IN_GLIBC(void *, __libc_realloc, (void *block, size_t size), hak_realloc)
HK_REPLACES_IN_GLIBC(void *, __libc_memalign, (size_t alignment, size_t size), hak_memalign)
HK_REPLACES_IN_GLIBC(void *, __libc_valloc, (size_t size), hak_valloc)
HK_REPLACES_IN_GLIBC(void *, __libc_pvalloc, (size_t size), hak_pvalloc)
