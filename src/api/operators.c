/* All forms of the C++ operators new and delete, under their Itanium ABI names: a C++ program needs no other library, and a C program
 * does not load the C++ library. This file is compiled with -fexceptions, so that bad_alloc passes through.
 *
 * A program may replace some forms, usually only new and delete. As the standard requires, each other form calls a simpler one,
 * replaced or not:   sized delete[] -> delete[] -> delete     new[] -> new     nothrow -> the throwing form, with its exception caught */
#include <dlfcn.h>

#include "api/entry.h"
#include "api/instrumented.h"
#include "api/process_new.h"
#include "api/refuse_new.h"
#include "base/bits.h"
#include "guard/block_checks.h"
#include "runtime/lifecycle.h"
#include "tcache/hit.h"

#pragma weak dlsym

HK_PROCESS(void, process_delete, (void *block), _ZdlPv, hk_operator_delete)
HK_PROCESS(void, process_delete_array, (void *block), _ZdaPv, hk_operator_delete_array)
HK_PROCESS(void, process_delete_aligned, (void *block, size_t align), _ZdlPvSt11align_val_t, hk_operator_delete_aligned)
HK_PROCESS(void, process_delete_array_aligned, (void *block, size_t align), _ZdaPvSt11align_val_t,
           hk_operator_delete_array_aligned)

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

#define OURS(form, own)                                                                                                \
    (__extension__({                                                                                                   \
        __typeof__(&(own)) form_called = (form);                                                                       \
        HK_FORGET(form_called);                                                                                        \
        form_called == (own);                                                                                          \
    }))

/* True if the throwing forms are HAKMEM's. */
static bool throwing_is_ours(bool array)
{
    return OURS(process_new, hk_operator_new) && (!array || OURS(process_new_array, hk_operator_new_array));
}

static bool throwing_aligned_is_ours(bool array)
{
    return OURS(process_new_aligned, hk_operator_new_aligned) &&
           (!array || OURS(process_new_array_aligned, hk_operator_new_array_aligned));
}

void *hk_operator_new(size_t size)
{
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : new_slow(HK_FINE_STEP, size, HK_KIND_NEW, __builtin_return_address(0));
}

/* The kind of a block matters only while the guard is on, and only if this is the form that the array form calls. */
static bool guards_arrays(void) { return HK_UNLIKELY(hk_guard_is_on()) && throwing_is_ours(false); }

void *hk_operator_new_array(size_t size)
{
    if (guards_arrays())
        return new_slow(HK_FINE_STEP, size, HK_KIND_NEW_ARRAY, __builtin_return_address(0));
    return HK_WHOEVER(process_new)(size);
}

HK_INLINE void *new_nothrow(size_t size, bool array, void *caller)
{
    if (HK_UNLIKELY(!throwing_is_ours(array)))
        return nothrow_by_library(HK_FINE_STEP, size, array);
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block
                                    : nothrow_slow(HK_FINE_STEP, size, array ? HK_KIND_NEW_ARRAY : HK_KIND_NEW, caller);
}

void *hk_operator_new_nothrow(size_t size, const void *tag)
{
    (void)tag;
    return new_nothrow(size, false, __builtin_return_address(0));
}

void *hk_operator_new_array_nothrow(size_t size, const void *tag)
{
    (void)tag;
    return new_nothrow(size, true, __builtin_return_address(0));
}

void *hk_operator_new_aligned(size_t size, size_t align)
{
    return new_slow(align, size, HK_KIND_NEW, __builtin_return_address(0));
}

void *hk_operator_new_array_aligned(size_t size, size_t align)
{
    if (HK_UNLIKELY(hk_guard_is_on()) && throwing_aligned_is_ours(false))
        return new_slow(align, size, HK_KIND_NEW_ARRAY, __builtin_return_address(0));
    return HK_WHOEVER(process_new_aligned)(size, align);
}

HK_INLINE void *new_aligned_nothrow(size_t size, size_t align, bool array, void *caller)
{
    return throwing_aligned_is_ours(array) ? nothrow_slow(align, size, array ? HK_KIND_NEW_ARRAY : HK_KIND_NEW, caller)
                                           : nothrow_by_library(hk_max(align, HK_FINE_STEP + 1), size, array);
}

void *hk_operator_new_aligned_nothrow(size_t size, size_t align, const void *tag)
{
    (void)tag;
    return new_aligned_nothrow(size, align, false, __builtin_return_address(0));
}

void *hk_operator_new_array_aligned_nothrow(size_t size, size_t align, const void *tag)
{
    (void)tag;
    return new_aligned_nothrow(size, align, true, __builtin_return_address(0));
}

/* HAKMEM's own operator delete needs neither size nor alignment: the page map has the size. While the guard is on, they are compared. A
 * form whose simpler form the program has replaced calls that. */
void hk_operator_delete(void *block);
void hk_operator_delete_nothrow(void *block, size_t tag);
void hk_operator_delete_sized(void *block, size_t size);
void hk_operator_delete_array(void *block);
void hk_operator_delete_array_nothrow(void *block, size_t tag);
void hk_operator_delete_array_sized(void *block, size_t size);
void hk_operator_delete_aligned(void *block, size_t align);
void hk_operator_delete_aligned_nothrow(void *block, size_t align, size_t tag);
void hk_operator_delete_aligned_sized(void *block, size_t size, size_t align);
void hk_operator_delete_array_aligned(void *block, size_t align);
void hk_operator_delete_array_aligned_nothrow(void *block, size_t align, size_t tag);
void hk_operator_delete_array_aligned_sized(void *block, size_t size, size_t align);

void hk_operator_delete(void *block)
{
    struct hk_thread_state *hot;
    size_t offset;
    enum hk_free_end end = hk_hit_free(block, &hot, &offset);
    if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))
        hk_delete_elsewhere(block);
    else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))
        hk_delete_not_mine(block, hot, offset);
    else if (HK_UNLIKELY(end == HK_FREE_MEDIUM))
        hk_delete_medium(block, hot, offset);
    else if (HK_UNLIKELY(end == HK_FREE_FULL))
        hk_delete_full(block, hot, offset);
}

void hk_operator_delete_aligned(void *block, size_t align)
{
    (void)align;
    hk_operator_delete(block);
}

/* True if the delete was done here: the guard is on, and the form that would be called is HAKMEM's. Inline, for the return address of the
 * exported operator. */
HK_INLINE bool deleted_guarded(bool ours, void *block, bool array, size_t size)
{
    enum hk_call single = size != HK_SIZE_UNKNOWN ? HK_CALL_DELETE_SIZED : HK_CALL_DELETE;
    if (ours)
        hk_instrumented_free(array ? HK_CALL_DELETE_ARRAY : single, block, size, __builtin_return_address(0));
    return ours;
}

void hk_operator_delete_nothrow(void *block, size_t tag)
{
    (void)tag;
    HK_WHOEVER(process_delete)(block);
}

void hk_operator_delete_array(void *block)
{
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) &&
        deleted_guarded(OURS(process_delete, hk_operator_delete), block, true, HK_SIZE_UNKNOWN))
        return;
    HK_WHOEVER(process_delete)(block);
}

void hk_operator_delete_array_nothrow(void *block, size_t tag)
{
    (void)tag;
    HK_WHOEVER(process_delete_array)(block);
}

/* Checks the size, if the program has replaced no operator. */
static void delete_sized(void *block, size_t size)
{
    struct hk_thread_state *hot;
    size_t offset;
    enum hk_free_end end = hk_hit_free(block, &hot, &offset);
    if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))
        hk_sized_elsewhere(block, size, HK_CALL_DELETE_SIZED);
    else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))
        hk_delete_not_mine(block, hot, offset);
    else if (HK_UNLIKELY(end == HK_FREE_MEDIUM))
        hk_sized_medium(block, size, offset, hot, HK_CALL_DELETE_SIZED);
    else if (HK_UNLIKELY(end == HK_FREE_FULL))
        hk_sized_full(block, size, offset, hot, HK_CALL_DELETE_SIZED);
}

static void delete_array_sized_guarded(void *block, size_t size)
{
    hk_instrumented_free(HK_CALL_DELETE_ARRAY, block, size, __builtin_return_address(0));
}

static void delete_unsized(void *block, size_t size)
{
    (void)size;
    HK_WHOEVER(process_delete)(block);
}

static void delete_array_unsized(void *block, size_t size)
{
    (void)size;
    HK_WHOEVER(process_delete_array)(block);
}

static bool nothrow_is_ours(void)
{
    return OURS(process_new_nothrow, hk_operator_new_nothrow) &&
           OURS(process_new_array_nothrow, hk_operator_new_array_nothrow);
}

static bool aligned_nothrow_is_ours(void)
{
    return OURS(process_new_aligned_nothrow, hk_operator_new_aligned_nothrow) &&
           OURS(process_new_array_aligned_nothrow, hk_operator_new_array_aligned_nothrow);
}

static bool delete_is_ours(void)
{
    return OURS(process_delete, hk_operator_delete) && OURS(process_delete_array, hk_operator_delete_array);
}

/* Blocks of a replaced operator new may be larger than their size. */
static bool sizes_are_exact(void) { return throwing_is_ours(true) && nothrow_is_ours() && delete_is_ours(); }

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

void hk_operator_delete_sized(void *block, size_t size) { HK_LOAD_SETTLED(sized_single)(block, size); }
void hk_operator_delete_array_sized(void *block, size_t size) { HK_LOAD_SETTLED(sized_array)(block, size); }

static HK_COLD void check_medium_aligned(const void *block, size_t size, size_t align)
{
    if (sizes_are_exact() && throwing_aligned_is_ours(true) && aligned_nothrow_is_ours())
        hk_sized_check_aligned(block, size, align);
}

HK_INLINE void check_aligned(const void *block, size_t size, size_t align)
{
    if (HK_UNLIKELY(size > HK_FINE_MAX))
        check_medium_aligned(block, size, align);
}

void hk_operator_delete_aligned_sized(void *block, size_t size, size_t align)
{
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) &&
        deleted_guarded(OURS(process_delete_aligned, hk_operator_delete_aligned), block, false, size))
        return;
    check_aligned(block, size, align);
    HK_WHOEVER(process_delete_aligned)(block, align);
}

void hk_operator_delete_aligned_nothrow(void *block, size_t align, size_t tag)
{
    (void)tag;
    HK_WHOEVER(process_delete_aligned)(block, align);
}

void hk_operator_delete_array_aligned(void *block, size_t align)
{
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) &&
        deleted_guarded(OURS(process_delete_aligned, hk_operator_delete_aligned), block, true, HK_SIZE_UNKNOWN))
        return;
    HK_WHOEVER(process_delete_aligned)(block, align);
}

void hk_operator_delete_array_aligned_sized(void *block, size_t size, size_t align)
{
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) &&
        deleted_guarded(OURS(process_delete_array_aligned, hk_operator_delete_array_aligned) &&
                            OURS(process_delete_aligned, hk_operator_delete_aligned),
                        block, true, size))
        return;
    check_aligned(block, size, align);
    HK_WHOEVER(process_delete_array_aligned)(block, align);
}

void hk_operator_delete_array_aligned_nothrow(void *block, size_t align, size_t tag)
{
    (void)tag;
    HK_WHOEVER(process_delete_array_aligned)(block, align);
}

HK_REPLACES(void *, _Znwm, (size_t size), hk_operator_new)
HK_REPLACES(void *, _Znam, (size_t size), hk_operator_new_array)
HK_REPLACES(void *, _ZnwmRKSt9nothrow_t, (size_t size, const void *tag), hk_operator_new_nothrow)
HK_REPLACES(void *, _ZnamRKSt9nothrow_t, (size_t size, const void *tag), hk_operator_new_array_nothrow)
HK_REPLACES(void *, _ZnwmSt11align_val_t, (size_t size, size_t align), hk_operator_new_aligned)
HK_REPLACES(void *, _ZnamSt11align_val_t, (size_t size, size_t align), hk_operator_new_array_aligned)
HK_REPLACES(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, const void *tag),
            hk_operator_new_aligned_nothrow)
HK_REPLACES(void *, _ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, const void *tag),
            hk_operator_new_array_aligned_nothrow)
HK_REPLACES(void, _ZdlPv, (void *block), hk_operator_delete)
HK_REPLACES(void, _ZdaPv, (void *block), hk_operator_delete_array)
HK_REPLACES(void, _ZdlPvm, (void *block, size_t size), hk_operator_delete_sized)
HK_REPLACES(void, _ZdaPvm, (void *block, size_t size), hk_operator_delete_array_sized)
HK_REPLACES(void, _ZdlPvRKSt9nothrow_t, (void *block, size_t tag), hk_operator_delete_nothrow)
HK_REPLACES(void, _ZdaPvRKSt9nothrow_t, (void *block, size_t tag), hk_operator_delete_array_nothrow)
HK_REPLACES(void, _ZdlPvSt11align_val_t, (void *block, size_t align), hk_operator_delete_aligned)
HK_REPLACES(void, _ZdaPvSt11align_val_t, (void *block, size_t align), hk_operator_delete_array_aligned)
HK_REPLACES(void, _ZdlPvmSt11align_val_t, (void *block, size_t size, size_t align), hk_operator_delete_aligned_sized)
HK_REPLACES(void, _ZdaPvmSt11align_val_t, (void *block, size_t size, size_t align),
            hk_operator_delete_array_aligned_sized)
HK_REPLACES(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, size_t tag),
            hk_operator_delete_aligned_nothrow)
HK_REPLACES(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, size_t tag),
            hk_operator_delete_array_aligned_nothrow)
