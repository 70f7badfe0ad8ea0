/* C++ operators new and delete, in all forms, under their Itanium ABI names: a program in C++ needs nothing else, and
 * one in C does not get the C++ library by it. This file is compiled with -fexceptions: bad_alloc passes through. */
#include <dlfcn.h>

#include "api/entry.h"
#include "base/bits.h"
#include "base/fatal.h"
#include "front/hit.h"

#pragma weak dlsym
#pragma weak dladdr

typedef void (*new_handler)(void);

/* Of whichever C++ library the program has: std::get_new_handler and std::__throw_bad_alloc. */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* A C++ library that was loaded for one module only (RTLD_LOCAL) is found by way of that module. */
static void *symbol_for(const void *caller, const char *name)
{
    Dl_info module;
    if (dlsym == NULL || dladdr == NULL)
        return NULL; /* a static program: the weak names above are all there is */
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol != NULL || dladdr(caller, &module) == 0)
        return symbol;
    /* By name: a static program that names dlopen is warned about by its linker. */
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
    hk_fatal("operator new: out of memory, and no C++ library to throw std::bad_alloc with");
}

/* As the standard asks: try, call the handler, try again, until it succeeds or there is no handler. */
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

/* What the handler throws must be swallowed, which C cannot: the C++ library's own form does it, around the throwing form. */
static HK_NOINLINE void *nothrow_slow(size_t align, size_t size, void *caller)
{
    void *block = align <= HK_FINE_STEP ? hk_malloc_slow_for(size, caller) : hk_aligned_slow(align, size, caller);
    if (HK_LIKELY(block != NULL) || current_handler(caller) == NULL || dlsym == NULL)
        return block;
    static const char nothrow = 0;
    if (align <= HK_FINE_STEP) {
        void *(*next)(size_t, const void *) = (void *(*)(size_t, const void *))dlsym(RTLD_NEXT, "_ZnwmRKSt9nothrow_t");
        return next != NULL ? next(size, &nothrow) : NULL;
    }
    void *(*next)(size_t, size_t, const void *) =
        (void *(*)(size_t, size_t, const void *))dlsym(RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
    return next != NULL ? next(size, align, &nothrow) : NULL;
}

/* Shared by name only: the aliases below are what others call. */
void *hk_operator_new(size_t size);
void *hk_operator_new_nothrow(size_t size, const void *tag);
void *hk_operator_new_aligned(size_t size, size_t align);
void *hk_operator_new_aligned_nothrow(size_t size, size_t align, const void *tag);
void hk_operator_delete(void *block);
void hk_operator_delete_2(void *block, size_t hint);
void hk_operator_delete_3(void *block, size_t hint, size_t other);

void *hk_operator_new(size_t size)
{
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : new_slow(HK_FINE_STEP, size, __builtin_return_address(0));
}

void *hk_operator_new_nothrow(size_t size, const void *tag)
{
    (void)tag;
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : nothrow_slow(HK_FINE_STEP, size, __builtin_return_address(0));
}

void *hk_operator_new_aligned(size_t size, size_t align)
{
    return new_slow(align, size, __builtin_return_address(0));
}

void *hk_operator_new_aligned_nothrow(size_t size, size_t align, const void *tag)
{
    (void)tag;
    return nothrow_slow(align, size, __builtin_return_address(0));
}

void hk_operator_delete(void *block)
{
    if (HK_UNLIKELY(!hk_hit_free(block)))
        hk_delete_slow(block);
}

/* Size, alignment and the nothrow tag are hints that the owner map makes unnecessary. */
void hk_operator_delete_2(void *block, size_t hint)
{
    (void)hint;
    hk_operator_delete(block);
}

void hk_operator_delete_3(void *block, size_t hint, size_t other)
{
    (void)hint;
    (void)other;
    hk_operator_delete(block);
}

HK_REPLACES(void *, _Znwm, (size_t size), hk_operator_new)
HK_REPLACES(void *, _Znam, (size_t size), hk_operator_new)
HK_REPLACES(void *, _ZnwmRKSt9nothrow_t, (size_t size, const void *tag), hk_operator_new_nothrow)
HK_REPLACES(void *, _ZnamRKSt9nothrow_t, (size_t size, const void *tag), hk_operator_new_nothrow)
HK_REPLACES(void *, _ZnwmSt11align_val_t, (size_t size, size_t align), hk_operator_new_aligned)
HK_REPLACES(void *, _ZnamSt11align_val_t, (size_t size, size_t align), hk_operator_new_aligned)
HK_REPLACES(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, const void *tag),
            hk_operator_new_aligned_nothrow)
HK_REPLACES(void *, _ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, const void *tag),
            hk_operator_new_aligned_nothrow)
HK_REPLACES(void, _ZdlPv, (void *block), hk_operator_delete)
HK_REPLACES(void, _ZdaPv, (void *block), hk_operator_delete)
HK_REPLACES(void, _ZdlPvm, (void *block, size_t size), hk_operator_delete_2)
HK_REPLACES(void, _ZdaPvm, (void *block, size_t size), hk_operator_delete_2)
HK_REPLACES(void, _ZdlPvRKSt9nothrow_t, (void *block, size_t tag), hk_operator_delete_2)
HK_REPLACES(void, _ZdaPvRKSt9nothrow_t, (void *block, size_t tag), hk_operator_delete_2)
HK_REPLACES(void, _ZdlPvSt11align_val_t, (void *block, size_t align), hk_operator_delete_2)
HK_REPLACES(void, _ZdaPvSt11align_val_t, (void *block, size_t align), hk_operator_delete_2)
HK_REPLACES(void, _ZdlPvmSt11align_val_t, (void *block, size_t size, size_t align), hk_operator_delete_3)
HK_REPLACES(void, _ZdaPvmSt11align_val_t, (void *block, size_t size, size_t align), hk_operator_delete_3)
HK_REPLACES(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, size_t tag), hk_operator_delete_3)
HK_REPLACES(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, size_t tag), hk_operator_delete_3)
