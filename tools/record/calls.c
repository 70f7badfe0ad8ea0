/* Calls: defines malloc, free, the C++ operators and related functions. Each one notes the program's call in the recording, and passes the call on to
 * the allocator below. The file is compiled with -fexceptions, so that bad_alloc passes through the operators. */
#include <errno.h>
#include <sys/mman.h>

#include "next.h"
#include "recorder.h"

/* No header declares all of these functions. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define UNUSED __attribute__((unused))

/* Returns true if the allocator below can be called. */
static inline bool ready(void) { return REC_LIKELY(rec_ready) || rec_find_next(); }

static inline void leave(const bool *was_inside) { rec_self.inside = *was_inside; }

/* Sets rec_self.inside, and restores it at the end of the scope, even if an exception leaves the scope. `was_inside` is the value before. If it is
 * true, the allocator below makes the call itself, and the call is not noted. */
#define ENTER()                                                                                                        \
    __attribute__((cleanup(leave))) bool was_inside = rec_self.inside;                                                 \
    rec_self.inside = true

/* An alignment of 0 stands for a function without an alignment, and has the logarithm 0. Therefore an alignment of 1 counts as 2. */
static inline unsigned log_of(size_t align)
{
    return align < 2 ? (unsigned)align : 63 - (unsigned)__builtin_clzll(align);
}

/* Notes the block that the allocator below has returned. */
static inline void *noted(enum rec_kind kind, void *block, size_t size, size_t align)
{
    if (REC_LIKELY(block != NULL))
        rec_note_alloc(kind, block, size, log_of(align));
    return block;
}

/* ---- allocations ------------------------------------------------------- */

/* Defines a function that allocates a block of `bytes` bytes. The last arguments are passed to the allocator below. */
#define ALLOCATION(name, kind, parameters, bytes, align, ...)                                                          \
    REC_EXPORT void *name parameters                                                                                   \
    {                                                                                                                  \
        if (!ready())                                                                                                  \
            return rec_early_alloc(bytes, align);                                                                      \
        ENTER();                                                                                                       \
        void *block = rec_next.name(__VA_ARGS__);                                                                      \
        return was_inside ? block : noted(kind, block, bytes, align);                                                  \
    }

/* Returns the product, or SIZE_MAX if the product is larger. No allocator serves SIZE_MAX bytes. */
static inline size_t product(size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

static size_t whole_pages(size_t size) { return (size + rec_page_size() - 1) & ~(rec_page_size() - 1); }

ALLOCATION(malloc, REC_MALLOC, (size_t size), size, 0, size)
ALLOCATION(calloc, REC_CALLOC, (size_t count, size_t size), product(count, size), 0, count, size)
ALLOCATION(memalign, REC_ALIGNED, (size_t align, size_t size), size, align, align, size)
ALLOCATION(aligned_alloc, REC_ALIGNED, (size_t align, size_t size), size, align, align, size)
ALLOCATION(valloc, REC_ALIGNED, (size_t size), size, rec_page_size(), size)
ALLOCATION(pvalloc, REC_ALIGNED, (size_t size), whole_pages(size), rec_page_size(), size)

REC_EXPORT int posix_memalign(void **block, size_t align, size_t size)
{
    if (!ready()) {
        void *early = rec_early_alloc(size, align);
        *block = early != NULL ? early : *block;
        return early != NULL ? 0 : ENOMEM;
    }
    ENTER();
    int error = rec_next.posix_memalign(block, align, size);
    if (error == 0 && !was_inside)
        noted(REC_ALIGNED, *block, size, align);
    return error;
}

/* ---- frees ------------------------------------------------------------- */

enum { PAGES_AT_ONCE = 2048 };

/* Returns the number of resident units (REC_PAGE) in a range, or UINT32_MAX if the kernel refuses. Anonymous pages are resident only after they were
 * touched. A page also counts if it was touched only when it belonged to an earlier block. */
static uint32_t resident_pages(uintptr_t from, uintptr_t to, size_t page)
{
    unsigned char seen[PAGES_AT_ONCE];
    uint32_t count = 0;
    for (size_t most = PAGES_AT_ONCE * page; from < to; from += most) {
        size_t bytes = to - from < most ? to - from : most;
        if (mincore((void *)from, bytes, seen) != 0)
            return UINT32_MAX;
        for (size_t i = 0; i < bytes / page; i++)
            count += seen[i] & 1;
    }
    return count * (uint32_t)(page / REC_PAGE);
}

REC_COLD uint32_t rec_touched(const void *block)
{
    size_t usable = rec_next.malloc_usable_size((void *)(uintptr_t)block);
    if (usable < REC_LARGE_BLOCK)
        return 0;
    int error = errno;
    size_t page = rec_page_size();
    uintptr_t from = (uintptr_t)block & ~(page - 1);
    uintptr_t to = ((uintptr_t)block + usable + page - 1) & ~(page - 1);
    uint32_t pages = resident_pages(from, to, page);
    errno = error;
    return pages == UINT32_MAX ? 0 : pages + 1;
}

REC_COLD bool rec_always(const void *block)
{
    return rec_next.malloc_usable_size((void *)(uintptr_t)block) >= REC_ALWAYS_FROM;
}

static inline void free_noted(void *block)
{
    if (block == NULL || rec_is_early(block) || !ready())
        return;
    ENTER();
    if (!was_inside)
        rec_note_free(REC_FREE, block, 0);
    rec_next.free(block);
}

REC_EXPORT void free(void *block) { free_noted(block); }
REC_EXPORT void cfree(void *block) { free_noted(block); }
REC_EXPORT void free_sized(void *block, UNUSED size_t size) { free_noted(block); }
REC_EXPORT void free_aligned_sized(void *block, UNUSED size_t align, UNUSED size_t size) { free_noted(block); }

/* ---- realloc ----------------------------------------------------------- */

/* Resizes a block of the early arena (next.h) by copying it to a new block. The early block is never freed. */
static REC_COLD void *realloc_early(void *block, size_t size)
{
    size_t before = rec_early_size(block);
    void *moved = malloc(size);
    if (moved != NULL)
        memcpy(moved, block, before < size ? before : size);
    return moved;
}

/* Makes a realloc, and notes it as a free and an allocation, because the sample may contain only the old block or only the new one. */
static REC_COLD void *realloc_sampled(void *block, size_t size)
{
    rec_note_free(REC_FREE, block, 0);
    void *moved = rec_next.realloc(block, size);
    if (moved == NULL && size != 0)
        noted(REC_MALLOC, block, rec_next.malloc_usable_size(block), 0);
    return noted(REC_MALLOC, moved, size, 0);
}

static inline void *realloc_noted(void *block, size_t size)
{
    if (block == NULL)
        return noted(REC_MALLOC, rec_next.realloc(NULL, size), size, 0);
    if (REC_UNLIKELY(rec_shared->sample > 1))
        return realloc_sampled(block, size);
    rec_note_event(REC_REALLOC, (uintptr_t)block, size, rec_touched_of(block), false);
    void *moved = rec_next.realloc(block, size);
    if (moved != NULL && size >= REC_LARGE_BLOCK)
        rec_see_large(moved);
    rec_note_event(REC_MOVED, (uintptr_t)moved, 0, 0, false);
    return moved;
}

REC_EXPORT void *realloc(void *block, size_t size)
{
    if (REC_UNLIKELY(rec_is_early(block)))
        return realloc_early(block, size);
    if (!ready())
        return block == NULL ? rec_early_alloc(size, 16) : NULL;
    ENTER();
    return was_inside ? rec_next.realloc(block, size) : realloc_noted(block, size);
}

REC_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

/* ---- C++ operators ----------------------------------------------------- */

/* An operator to which calls are passed on. `function` is looked up at the first call. */
struct below {
    const char *name;
    void *function;
};

/* Returns the function of the operator. Ends the program if no library defines the operator, because the call then cannot be passed on. */
static void *look_up(struct below *below)
{
    void *function = __atomic_load_n(&below->function, __ATOMIC_RELAXED);
    if (REC_LIKELY(function != NULL))
        return function;
    bool inside = rec_self.inside;
    rec_self.inside = true;
    function = rec_find_operator(below->name);
    rec_self.inside = inside;
    if (function == NULL) {
        errno = 0;
        rec_say("", "a C++ operator is called, and no C++ library defines it");
        abort();
    }
    __atomic_store_n(&below->function, function, __ATOMIC_RELAXED);
    return function;
}

/* Defines an operator new, which passes the call on to the next operator of the same name. If that operator calls malloc, its call is not noted. */
#define NEW_OPERATOR(symbol, kind, parameters, align, ...)                                                             \
    REC_EXPORT void *symbol parameters                                                                                 \
    {                                                                                                                  \
        static struct below below = {.name = #symbol};                                                                 \
        void *(*next)parameters = (void *(*)parameters)look_up(&below);                                                \
        ENTER();                                                                                                       \
        void *block = next(__VA_ARGS__);                                                                               \
        return was_inside ? block : noted(kind, block, size, align);                                                   \
    }

/* Defines the operators new (letter w) or new[] (letter a). */
#define NEW_OPERATORS(letter)                                                                                          \
    NEW_OPERATOR(_Zn##letter##m, REC_NEW, (size_t size), 0, size)                                                      \
    NEW_OPERATOR(_Zn##letter##mRKSt9nothrow_t, REC_NEW, (size_t size, const void *tag), 0, size, tag)                  \
    NEW_OPERATOR(_Zn##letter##mSt11align_val_t, REC_NEW_ALIGNED, (size_t size, size_t align), align, size, align)      \
    NEW_OPERATOR(_Zn##letter##mSt11align_val_tRKSt9nothrow_t, REC_NEW_ALIGNED,                                         \
                 (size_t size, size_t align, const void *tag), align, size, align, tag)
NEW_OPERATORS(w)
NEW_OPERATORS(a)

/* Notes a delete and passes it on. The sized and the nothrow forms are passed on to the operator that takes neither a size nor a tag. A sized form
 * differs only in the kind and the size that are noted. `align` is 0 for an operator without an alignment. */
static void pass_delete(struct below *below, enum rec_kind kind, void *block, size_t size, size_t align)
{
    if (block == NULL || rec_is_early(block))
        return;
    void *next = look_up(below);
    ENTER();
    if (!was_inside)
        rec_note_free(kind, block, size);
    if (align == 0)
        ((void (*)(void *))next)(block);
    else
        ((void (*)(void *, size_t))next)(block, align);
}

#define TAG UNUSED const void *tag
#define DELETE_OPERATOR(symbol, below, parameters, kind, size, align)                                                  \
    REC_EXPORT void symbol parameters { pass_delete(&(below), kind, block, size, align); }

/* Defines the operators delete (letter l) or delete[] (letter a). */
#define DELETE_OPERATORS(letter)                                                                                       \
    static struct below plain_##letter = {.name = "_Zd" #letter "Pv"};                                                 \
    static struct below aligned_##letter = {.name = "_Zd" #letter "PvSt11align_val_t"};                                \
    DELETE_OPERATOR(_Zd##letter##Pv, plain_##letter, (void *block), REC_DELETE, 0, 0)                                  \
    DELETE_OPERATOR(_Zd##letter##Pvm, plain_##letter, (void *block, size_t size), REC_DELETE_SIZED, size, 0)           \
    DELETE_OPERATOR(_Zd##letter##PvRKSt9nothrow_t, plain_##letter, (void *block, TAG), REC_DELETE, 0, 0)               \
    DELETE_OPERATOR(_Zd##letter##PvSt11align_val_t, aligned_##letter, (void *block, size_t align), REC_DELETE, 0,      \
                    align)                                                                                             \
    DELETE_OPERATOR(_Zd##letter##PvmSt11align_val_t, aligned_##letter, (void *block, size_t size, size_t align),       \
                    REC_DELETE_SIZED, size, align)                                                                     \
    DELETE_OPERATOR(_Zd##letter##PvSt11align_val_tRKSt9nothrow_t, aligned_##letter, (void *block, size_t align, TAG),  \
                    REC_DELETE, 0, align)
DELETE_OPERATORS(l)
DELETE_OPERATORS(a)

/* ---- other functions --------------------------------------------------- */

REC_EXPORT size_t malloc_usable_size(void *block)
{
    if (block == NULL)
        return 0;
    if (rec_is_early(block))
        return rec_early_size(block);
    return ready() ? rec_next.malloc_usable_size(block) : 0;
}

REC_EXPORT void _exit(int status)
{
    rec_finish();
    if (ready())
        rec_next._exit(status);
    for (;;)
        __builtin_trap();
}

REC_EXPORT void _Exit(int status) { _exit(status); }
