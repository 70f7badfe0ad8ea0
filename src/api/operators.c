/* All forms of the C++ operators new and delete, under their Itanium ABI names: a C++ program needs no other library, and a C program
 * does not load the C++ library. This file is compiled with -fexceptions, so that bad_alloc passes through.
 *
 * A program may replace some forms, usually only new and delete. As the standard requires, each other form calls a simpler one,
 * replaced or not:   sized delete[] -> delete[] -> delete     new[] -> new     nothrow -> the throwing form, with its exception caught */
#include <dlfcn.h>
#include "api/entry.h"
#include "api/instrumented.h"
#include "api/operators.h"
#include "api/refuse_new.h"
#include "base/bits.h"
#include "guard/block_checks.h"
#include "runtime/lifecycle.h"
#include "tcache/hit.h"

#pragma weak dlsym

/* Behind a miss. */
static void *alloc_new(size_t align, size_t size, enum hk_kind kind, void *caller)
{
    struct hk_request request = {.size = size, .align = hk_max(align, HK_FINE_STEP), .kind = kind, .caller = caller};
    void *block = hk_alloc_slow(&request);
    return HK_LIKELY(block != NULL) || hk_guard_is_on() ? block : hk_refuse(size);
}

/* As the standard requires: allocates, calls the new handler and repeats, until it succeeds or no handler is set. */
static HK_NOINLINE void *new_slow(size_t align, size_t size, enum hk_kind kind, void *caller)
{
    for (;;) {
        void *block = alloc_new(align, size, kind, caller);
        if (HK_LIKELY(block != NULL))
            return block;
        hk_new_handler *handler = hk_current_new_handler(caller);
        if (handler == NULL)
            hk_throw_bad_alloc(caller);
        handler();
    }
}

static const char *const nothrow_names[] = {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"};
static const char *const nothrow_aligned_names[] = {"_ZnwmSt11align_val_tRKSt9nothrow_t",
                                                    "_ZnamSt11align_val_tRKSt9nothrow_t"};

/* Exceptions of the throwing form or of the handler must be caught, which C cannot do: calls the C++ library's form. */
static HK_COLD void *nothrow_by_library(size_t align, size_t size, bool array)
{
    static const char tag = 0;
    if (dlsym == NULL)
        return NULL;
    if (align <= HK_FINE_STEP) {
        void *(*next)(size_t, const void *) = (void *(*)(size_t, const void *))dlsym(RTLD_NEXT, nothrow_names[array]);
        return next != NULL ? next(size, &tag) : NULL;
    }
    void *(*next)(size_t, size_t, const void *) =
        (void *(*)(size_t, size_t, const void *))dlsym(RTLD_NEXT, nothrow_aligned_names[array]);
    return next != NULL ? next(size, align, &tag) : NULL;
}

static HK_NOINLINE void *nothrow_slow(size_t align, size_t size, enum hk_kind kind, void *caller)
{
    void *block = alloc_new(align, size, kind, caller);
    bool final = HK_LIKELY(block != NULL) || hk_current_new_handler(caller) == NULL;
    return final ? block : nothrow_by_library(align, size, false);
}

#define WHOEVER(form) HK_WHOEVER(process_##form)
#define OURS(form) HK_IS_OURS(process_##form, hk_operator_##form)

static bool throwing_is_ours(bool array) { return OURS(new) && (!array || OURS(new_array)); }
static bool throwing_aligned_is_ours(bool array) { return OURS(new_aligned) && (!array || OURS(new_array_aligned)); }

/* Inline, as all that serve the forms, for the return address of the exported operator. */
HK_INLINE void *new_single(size_t align, size_t size, enum hk_kind kind)
{
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : new_slow(align, size, kind, HK_CALLER);
}

/* The kind of a block matters only while the guard is on, and only if this is the form that the array form calls. */
HK_INLINE void *new_array(size_t align, size_t size, enum hk_kind kind)
{
    if (HK_UNLIKELY(hk_guard_is_on()) && throwing_is_ours(false))
        return new_slow(align, size, kind, HK_CALLER);
    return WHOEVER(new)(size);
}

HK_INLINE void *new_aligned(size_t align, size_t size, enum hk_kind kind)
{
    return new_slow(align, size, kind, HK_CALLER);
}

HK_INLINE void *new_array_aligned(size_t align, size_t size, enum hk_kind kind)
{
    if (HK_UNLIKELY(hk_guard_is_on()) && throwing_aligned_is_ours(false))
        return new_slow(align, size, kind, HK_CALLER);
    return WHOEVER(new_aligned)(size, align);
}

HK_INLINE void *new_nothrow(size_t align, size_t size, enum hk_kind kind)
{
    bool array = kind == HK_KIND_NEW_ARRAY;
    void *caller = HK_CALLER;
    if (HK_UNLIKELY(!throwing_is_ours(array)))
        return nothrow_by_library(align, size, array);
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : nothrow_slow(align, size, kind, caller);
}

HK_INLINE void *new_aligned_nothrow(size_t align, size_t size, enum hk_kind kind)
{
    bool array = kind == HK_KIND_NEW_ARRAY;
    void *caller = HK_CALLER;
    return throwing_aligned_is_ours(array) ? nothrow_slow(align, size, kind, caller)
                                           : nothrow_by_library(hk_max(align, HK_FINE_STEP + 1), size, array);
}

/* HAKMEM's own operator delete needs neither size nor alignment: the page map has the size. While the guard is on, they are compared. A
 * form whose simpler form the program has replaced calls that. */
HK_INLINE void delete_single(void *block)
{
    HK_FREE_OR(block, hk_delete_elsewhere(block), hk_delete_not_mine(block, hot, offset),
               hk_delete_medium(block, hot, offset), hk_delete_full(block, hot, offset));
}

/* True if the delete was done here: the guard is on, and the form that would be called is HAKMEM's. */
HK_INLINE bool deleted_guarded(bool ours, void *block, bool array, size_t size)
{
    enum hk_call single = size != HK_SIZE_UNKNOWN ? HK_CALL_DELETE_SIZED : HK_CALL_DELETE;
    if (ours)
        hk_instrumented_free(array ? HK_CALL_DELETE_ARRAY : single, block, size, HK_CALLER);
    return ours;
}

#define UNLESS_GUARDED(ours, array, size, call)                                                                        \
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) && deleted_guarded(ours, block, array, size))                        \
        return;                                                                                                        \
    call

/* Checks the size, if the program has replaced no operator. */
static void delete_sized(void *block, size_t size)
{
    HK_FREE_OR(block, hk_sized_elsewhere(block, size, HK_CALL_DELETE_SIZED), hk_delete_not_mine(block, hot, offset),
               hk_sized_medium(block, size, offset, hot, HK_CALL_DELETE_SIZED),
               hk_sized_full(block, size, offset, hot, HK_CALL_DELETE_SIZED));
}

static void delete_array_sized_guarded(void *block, size_t size)
{
    hk_instrumented_free(HK_CALL_DELETE_ARRAY, block, size, HK_CALLER);
}

static void delete_unsized(void *block, size_t size)
{
    (void)size;
    WHOEVER(delete)(block);
}

static void delete_array_unsized(void *block, size_t size)
{
    (void)size;
    WHOEVER(delete_array)(block);
}

/* Blocks of a replaced operator new may be larger than their size. */
static bool sizes_are_exact(void)
{
    return throwing_is_ours(true) && OURS(new_nothrow) && OURS(new_array_nothrow) && OURS(delete) && OURS(delete_array);
}

typedef void sized_form(void *block, size_t size);
static sized_form choose_single, choose_array;
/* What the first call chooses, so that the choice costs the others no instruction. */
static sized_form *sized_single = choose_single, *sized_array = choose_array;

/* Before the start, it is unknown whether the guard will be on. */
static sized_form *choose(sized_form **chosen, sized_form *checked, sized_form *unchecked)
{
    sized_form *form = sizes_are_exact() ? checked : unchecked;
    if (hk_started())
        __atomic_store_n(chosen, form, __ATOMIC_RELEASE);
    return form;
}

static HK_COLD void choose_single(void *block, size_t size)
{
    choose(&sized_single, delete_sized, delete_unsized)(block, size);
}
static HK_COLD void choose_array(void *block, size_t size)
{
    sized_form *checked = hk_guard.on ? delete_array_sized_guarded : delete_sized;
    choose(&sized_array, checked, delete_array_unsized)(block, size);
}

static HK_COLD void check_medium_aligned(const void *block, size_t size, size_t align)
{
    if (sizes_are_exact() && throwing_aligned_is_ours(true) && OURS(new_aligned_nothrow) &&
        OURS(new_array_aligned_nothrow))
        hk_sized_check_aligned(block, size, align);
}

HK_INLINE void checked_aligned(void *block, size_t size, size_t align, void (*form)(void *block, size_t align))
{
    if (HK_UNLIKELY(size > HK_FINE_MAX))
        check_medium_aligned(block, size, align);
    form(block, align);
}

#define HK_NEW(form, symbol, parameters, arguments, align, kind, serve)                                                \
    void *hk_operator_##form parameters { return serve(align, size, HK_KIND_##kind); }                                 \
    HK_REPLACES(void *, _##symbol, parameters, hk_operator_##form)
#define HK_DELETE(form, symbol, parameters, serve)                                                                     \
    void hk_operator_##form parameters { serve; }                                                                      \
    HK_REPLACES(void, _##symbol, parameters, hk_operator_##form)
#include "api/operators.def"
