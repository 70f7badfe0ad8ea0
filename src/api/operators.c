/* All forms of the C++ operators new and delete, under their Itanium ABI names: a C++ program needs no other library, and a C program
 * does not load the C++ library. This file is compiled with -fexceptions, so that bad_alloc passes through.
 *
 * A program may replace some forms, usually only new and delete. As the standard requires, each other form calls a simpler one,
 * replaced or not:   sized delete[] -> delete[] -> delete     new[] -> new     nothrow -> the throwing form, with its exception caught */
#include <dlfcn.h>

#include "api/entry.h"
#include "base/bits.h"
#include "base/fatal.h"
#include "tcache/hit.h"

#pragma weak dlsym
#pragma weak dladdr

typedef void (*new_handler)(void);

HK_PROCESS(void *, process_new, (size_t size), _Znwm, hk_operator_new)
HK_PROCESS(void *, process_new_array, (size_t size), _Znam, hk_operator_new_array)
HK_PROCESS(void *, process_new_aligned, (size_t size, size_t align), _ZnwmSt11align_val_t, hk_operator_new_aligned)
HK_PROCESS(void *, process_new_array_aligned, (size_t size, size_t align), _ZnamSt11align_val_t,
           hk_operator_new_array_aligned)
HK_PROCESS(void, process_delete, (void *block), _ZdlPv, hk_operator_delete)
HK_PROCESS(void, process_delete_array, (void *block), _ZdaPv, hk_operator_delete_array)
HK_PROCESS(void, process_delete_aligned, (void *block, size_t align), _ZdlPvSt11align_val_t, hk_operator_delete_aligned)
HK_PROCESS(void, process_delete_array_aligned, (void *block, size_t align), _ZdaPvSt11align_val_t,
           hk_operator_delete_array_aligned)

/* std::get_new_handler and std::__throw_bad_alloc of the program's C++ library, if it has one. */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* Finds a C++ library that was loaded for one module only (RTLD_LOCAL) through the module that contains `caller`. */
static void *symbol_for(const void *caller, const char *name)
{
    Dl_info module;
    if (dlsym == NULL || dladdr == NULL)
        return NULL; /* a static program has only the weak names above */
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol != NULL || dladdr(caller, &module) == 0)
        return symbol;
    /* dlopen by name: the linker warns about a static program that refers to it. */
    void *(*open)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_DEFAULT, "dlopen");
    void *handle = open != NULL ? open(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return handle != NULL ? dlsym(handle, name) : NULL;
}

static new_handler current_handler(const void *caller)
{
    new_handler (*get)(void) = _ZSt15get_new_handlerv;
    if (get == NULL)
        get = (new_handler(*)(void))symbol_for(caller, "_ZSt15get_new_handlerv");
    return get != NULL ? get() : NULL;
}

static _Noreturn void throw_bad_alloc(const void *caller)
{
    void (*raise)(void) = _ZSt17__throw_bad_allocv;
    if (raise == NULL)
        raise = (void (*)(void))symbol_for(caller, "_ZSt17__throw_bad_allocv");
    if (raise != NULL)
        raise();
    hk_fatal("operator new: out of memory, and there is no C++ library to throw std::bad_alloc");
}

/* As the standard requires: allocates, calls the new handler and repeats, until it succeeds or no handler is set. */
static HK_NOINLINE void *new_slow(size_t align, size_t size, void *caller)
{
    for (;;) {
        void *block = align <= HK_FINE_STEP ? hk_malloc_slow_for(size, caller) : hk_aligned_slow(align, size, caller);
        if (HK_LIKELY(block != NULL))
            return block;
        new_handler handler = current_handler(caller);
        if (handler == NULL)
            throw_bad_alloc(caller);
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

static HK_NOINLINE void *nothrow_slow(size_t align, size_t size, void *caller)
{
    void *block = align <= HK_FINE_STEP ? hk_malloc_slow_for(size, caller) : hk_aligned_slow(align, size, caller);
    bool final = HK_LIKELY(block != NULL) || current_handler(caller) == NULL;
    return final ? block : nothrow_by_library(align, size, false);
}

void *hk_operator_new(size_t size);
void *hk_operator_new_array(size_t size);
void *hk_operator_new_nothrow(size_t size, const void *tag);
void *hk_operator_new_array_nothrow(size_t size, const void *tag);
void *hk_operator_new_aligned(size_t size, size_t align);
void *hk_operator_new_array_aligned(size_t size, size_t align);
void *hk_operator_new_aligned_nothrow(size_t size, size_t align, const void *tag);
void *hk_operator_new_array_aligned_nothrow(size_t size, size_t align, const void *tag);

/* True if the throwing forms are HAKMEM's. */
static bool throwing_is_ours(bool array)
{
    void *(*single)(size_t) = process_new;
    void *(*several)(size_t) = process_new_array;
    HK_FORGET(single);
    HK_FORGET(several);
    return single == hk_operator_new && (!array || several == hk_operator_new_array);
}

static bool throwing_aligned_is_ours(bool array)
{
    void *(*single)(size_t, size_t) = process_new_aligned;
    void *(*several)(size_t, size_t) = process_new_array_aligned;
    HK_FORGET(single);
    HK_FORGET(several);
    return single == hk_operator_new_aligned && (!array || several == hk_operator_new_array_aligned);
}

void *hk_operator_new(size_t size)
{
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : new_slow(HK_FINE_STEP, size, __builtin_return_address(0));
}

void *hk_operator_new_array(size_t size) { return HK_WHOEVER(process_new)(size); }

HK_INLINE void *new_nothrow(size_t size, bool array, void *caller)
{
    if (HK_UNLIKELY(!throwing_is_ours(array)))
        return nothrow_by_library(HK_FINE_STEP, size, array);
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : nothrow_slow(HK_FINE_STEP, size, caller);
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

void *hk_operator_new_aligned(size_t size, size_t align) { return new_slow(align, size, __builtin_return_address(0)); }

void *hk_operator_new_array_aligned(size_t size, size_t align) { return HK_WHOEVER(process_new_aligned)(size, align); }

HK_INLINE void *new_aligned_nothrow(size_t size, size_t align, bool array, void *caller)
{
    return throwing_aligned_is_ours(array) ? nothrow_slow(align, size, caller)
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

/* Size, alignment and nothrow tag are unused: the page map has the size. */
void hk_operator_delete(void *block);
void hk_operator_delete_aligned(void *block, size_t align);
void hk_operator_delete_by_plain(void *block, size_t hint);
void hk_operator_delete_array(void *block);
void hk_operator_delete_by_array(void *block, size_t hint);
void hk_operator_delete_by_aligned(void *block, size_t size, size_t align);
void hk_operator_delete_by_aligned_nothrow(void *block, size_t align, size_t tag);
void hk_operator_delete_array_aligned(void *block, size_t align);
void hk_operator_delete_by_array_aligned(void *block, size_t size, size_t align);
void hk_operator_delete_by_array_aligned_nothrow(void *block, size_t align, size_t tag);

void hk_operator_delete(void *block)
{
    struct hk_hot *hot;
    size_t offset;
    enum hk_free_end end = hk_hit_free(block, &hot, &offset);
    if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))
        hk_delete_elsewhere(block);
    else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))
        hk_delete_not_mine(block, hot);
    else if (HK_UNLIKELY(end == HK_FREE_FULL))
        hk_free_full(block, hot, offset);
}

void hk_operator_delete_aligned(void *block, size_t align)
{
    (void)align;
    hk_operator_delete(block);
}

void hk_operator_delete_by_plain(void *block, size_t hint)
{
    (void)hint;
    HK_WHOEVER(process_delete)(block);
}

void hk_operator_delete_array(void *block) { HK_WHOEVER(process_delete)(block); }

void hk_operator_delete_by_array(void *block, size_t hint)
{
    (void)hint;
    HK_WHOEVER(process_delete_array)(block);
}

void hk_operator_delete_by_aligned(void *block, size_t size, size_t align)
{
    (void)size;
    HK_WHOEVER(process_delete_aligned)(block, align);
}

void hk_operator_delete_by_aligned_nothrow(void *block, size_t align, size_t tag)
{
    (void)tag;
    HK_WHOEVER(process_delete_aligned)(block, align);
}

void hk_operator_delete_array_aligned(void *block, size_t align) { HK_WHOEVER(process_delete_aligned)(block, align); }

void hk_operator_delete_by_array_aligned(void *block, size_t size, size_t align)
{
    (void)size;
    HK_WHOEVER(process_delete_array_aligned)(block, align);
}

void hk_operator_delete_by_array_aligned_nothrow(void *block, size_t align, size_t tag)
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
HK_REPLACES(void, _ZdlPvm, (void *block, size_t size), hk_operator_delete_by_plain)
HK_REPLACES(void, _ZdaPvm, (void *block, size_t size), hk_operator_delete_by_array)
HK_REPLACES(void, _ZdlPvRKSt9nothrow_t, (void *block, size_t tag), hk_operator_delete_by_plain)
HK_REPLACES(void, _ZdaPvRKSt9nothrow_t, (void *block, size_t tag), hk_operator_delete_by_array)
HK_REPLACES(void, _ZdlPvSt11align_val_t, (void *block, size_t align), hk_operator_delete_aligned)
HK_REPLACES(void, _ZdaPvSt11align_val_t, (void *block, size_t align), hk_operator_delete_array_aligned)
HK_REPLACES(void, _ZdlPvmSt11align_val_t, (void *block, size_t size, size_t align), hk_operator_delete_by_aligned)
HK_REPLACES(void, _ZdaPvmSt11align_val_t, (void *block, size_t size, size_t align), hk_operator_delete_by_array_aligned)
HK_REPLACES(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, size_t tag),
            hk_operator_delete_by_aligned_nothrow)
HK_REPLACES(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, size_t tag),
            hk_operator_delete_by_array_aligned_nothrow)
