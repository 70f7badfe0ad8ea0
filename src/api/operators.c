/* Defines all forms of the C++ operators new and delete, in C and under their mangled names, so that HAKMEM does not need the C++ library. This file
 * is compiled with -fexceptions, so that std::bad_alloc can pass through it.
 * A program may replace some forms, usually new and delete. As the standard requires, the other forms call simpler forms, HAKMEM's or the program's:
 * sized delete[] -> delete[] -> delete     new[] -> new     nothrow new -> throwing new, whose exception is caught
 *
 * If memory is refused, operator new calls the new-handler of the C++ library that its caller uses. If no handler is set, operator new throws the
 * std::bad_alloc of the same C++ library. This library is searched for in several ways, because it may be loaded for the process, be loaded for one
 * module only (RTLD_LOCAL), or be linked into the program, which may then hide the library's symbols or contain only parts of the library. */
#include "api/entry.h"
#include "api/instrumented.h"
#include "api/operators.h"
#include "os/elf_file.h"

#pragma weak dlsym
#pragma weak dladdr

typedef void new_handler(void);
typedef new_handler *get_handler(void);

/* These are std::get_new_handler and std::__throw_bad_alloc. Both are NULL if the dynamic loader has found no C++ library. */
extern new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* Finds a symbol of a C++ library. If only one module has loaded it (RTLD_LOCAL), finds the symbol through the module that contains `caller`. */
static void *symbol_for(const void *caller, const char *name)
{
    Dl_info module;
    if (dlsym == NULL || dladdr == NULL)
        return NULL; /* in a static program, which has no dlsym, the weak symbols above and find_parts() serve */
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol != NULL || dladdr(caller, &module) == 0)
        return symbol;
    /* Looks up dlopen by dlsym(), because the linker warns if a static program refers to dlopen directly. */
    void *(*open)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_DEFAULT, "dlopen");
    void *handle = open != NULL ? open(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return handle != NULL ? dlsym(handle, name) : NULL;
}

enum { GET_HANDLER, THROW, ALLOCATE, RAISE, TYPE, TABLE, DESTROY, CXX_PARTS };
typedef struct hk_elf_wanted parts[CXX_PARTS];
static const struct hk_elf_wanted cxx_names[CXX_PARTS] = {
    {"_ZSt15get_new_handlerv", 0}, {"_ZSt17__throw_bad_allocv", 0}, {"__cxa_allocate_exception", 0}, {"__cxa_throw", 0},
    {"_ZTISt9bad_alloc", 0},       {"_ZTVSt9bad_alloc", 0},         {"_ZNSt9bad_allocD1Ev", 0},
};

enum { NOT_REMEMBERED, BEING_REMEMBERED, REMEMBERED };
static _Atomic unsigned xremembered;
static parts remembered_parts HK_COLD_DATA;
static uintptr_t remembered_base;

/* Finds a C++ library that is linked into the caller's module, by the module's symbol table. The weak symbols above do not find it, because they do
 * not make the linker add the library's objects, and because zig hides the library's symbols. Remembers the result for the first module. */
static HK_NOINLINE void find_parts(const void *caller, parts found)
{
    struct hk_elf_loaded loaded;
    unsigned state = hk_load_acquire(xremembered);
    memcpy(found, cxx_names, sizeof cxx_names);
    if (!hk_elf_loaded(caller, NULL, &loaded))
        return;
    if (state == REMEMBERED && remembered_base == loaded.base) {
        memcpy(found, remembered_parts, sizeof remembered_parts);
        return;
    }
    hk_elf_find_hidden(&loaded, found, CXX_PARTS);
    if (state == NOT_REMEMBERED && atomic_compare_exchange_strong(&xremembered, &state, BEING_REMEMBERED)) {
        memcpy(remembered_parts, found, sizeof remembered_parts);
        remembered_base = loaded.base;
        hk_store_release(xremembered, REMEMBERED);
    }
}

/* Throws std::bad_alloc like __throw_bad_alloc(). Returns if a part is missing, which does not happen in a program that catches std::bad_alloc. */
static void throw_by_parts(parts found)
{
    for (unsigned i = ALLOCATE; i < CXX_PARTS; i++)
        if (found[i].address == 0)
            return;
    enum { BEFORE_FUNCTIONS = 2 * sizeof(void *) };
    uintptr_t *thrown = ((void *(*)(size_t))found[ALLOCATE].address)(sizeof(void *));
    *thrown = found[TABLE].address + BEFORE_FUNCTIONS;
    ((void (*)(void *, uintptr_t, uintptr_t))found[RAISE].address)(thrown, found[TYPE].address, found[DESTROY].address);
}

/* Returns the function of a part, or NULL if the caller's C++ library does not have it. `weak` is the part's weak symbol. If neither this symbol nor
 * the dynamic loader leads to the function, sets `found` to the parts that are linked into the caller's module. */
static HK_COLD void *function_of(const void *caller, void *weak, unsigned part, parts found)
{
    void *function = weak != NULL ? weak : symbol_for(caller, cxx_names[part].name);
    if (function != NULL)
        return function;
    find_parts(caller, found);
    return (void *)found[part].address;
}

/* Returns the new-handler, or NULL if no handler is set. `caller` is the return address of operator new. */
static HK_COLD new_handler *current_new_handler(const void *caller)
{
    parts found;
    get_handler *get = (get_handler *)function_of(caller, (void *)_ZSt15get_new_handlerv, GET_HANDLER, found);
    return get != NULL ? get() : NULL;
}

static HK_COLD _Noreturn void throw_bad_alloc(const void *caller)
{
    parts found;
    void (*raise)(void) = (void (*)(void))function_of(caller, (void *)_ZSt17__throw_bad_allocv, THROW, found);
    if (raise != NULL)
        raise();
    else
        throw_by_parts(found);
    hk_fatal(HK_TEXT_new_refused);
}

static void *alloc_new(size_t align, size_t size, enum hk_kind kind, void *caller)
{
    struct hk_request request = {.size = size, .align = hk_max(align, HK_FINE_STEP), .kind = kind, .caller = caller};
    void *block = hk_alloc_slow(&request);
    return HK_LIKELY(block != NULL) || hk_guard_is_on() ? block : hk_refuse(size);
}

/* Allocates a block after a miss. If memory is refused, calls the new-handler and tries again. If no handler is set, throws std::bad_alloc. */
static HK_NOINLINE void *new_slow(size_t align, size_t size, enum hk_kind kind, void *caller)
{
    for (;;) {
        void *block = alloc_new(align, size, kind, caller);
        if (HK_LIKELY(block != NULL))
            return block;
        new_handler *handler = current_new_handler(caller);
        if (handler == NULL)
            throw_bad_alloc(caller);
        handler();
    }
}

/* Calls the nothrow form of the C++ library. Called if the throwing form or the new-handler may throw, because C code cannot catch the exception. */
static HK_COLD void *nothrow_by_library(size_t align, size_t size, bool array)
{
    static const char tag = 0;
    static const char *const names[2][2] = {
        {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"},
        {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"},
    };
    bool aligned = align > HK_FINE_STEP;
    void *next = dlsym != NULL ? dlsym(RTLD_NEXT, names[aligned][array]) : NULL;
    if (next == NULL)
        return NULL;
    return aligned ? ((void *(*)(size_t, size_t, const void *))next)(size, align, &tag)
                   : ((void *(*)(size_t, const void *))next)(size, &tag);
}

static HK_NOINLINE void *nothrow_slow(size_t align, size_t size, enum hk_kind kind, void *caller)
{
    void *block = alloc_new(align, size, kind, caller);
    bool final = HK_LIKELY(block != NULL) || current_new_handler(caller) == NULL;
    return final ? block : nothrow_by_library(align, size, false);
}

#define WHOEVER(form) HK_WHOEVER(process_##form)
#define OURS(form) HK_IS_OURS(process_##form, hk_operator_##form)

static bool throwing_is_ours(bool array) { return OURS(new) && (!array || OURS(new_array)); }
static bool throwing_aligned_is_ours(bool array) { return OURS(new_aligned) && (!array || OURS(new_array_aligned)); }

/* The functions that the exported operators call are inline, so that HK_CALLER is the return address of the operator. */
HK_INLINE void *new_single(size_t align, size_t size, enum hk_kind kind)
{
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : new_slow(align, size, kind, HK_CALLER);
}

/* Allocates an array by operator new. If the guard is on and this operator is HAKMEM's, tells the guard that the block is an array. */
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
    if (HK_UNLIKELY(!throwing_is_ours(array)))
        return nothrow_by_library(align, size, array);
    void *block = hk_hit_malloc(size);
    return HK_LIKELY(block != NULL) ? block : nothrow_slow(align, size, kind, HK_CALLER);
}

HK_INLINE void *new_aligned_nothrow(size_t align, size_t size, enum hk_kind kind)
{
    bool array = kind == HK_KIND_NEW_ARRAY;
    return throwing_aligned_is_ours(array) ? nothrow_slow(align, size, kind, HK_CALLER)
                                           : nothrow_by_library(hk_max(align, HK_FINE_STEP + 1), size, array);
}

/* Frees a block for operator delete. Needs neither size nor alignment, because the page map entry has the class of the block. */
HK_INLINE void delete_single(void *block)
{
    HK_FREE_OR(block, hk_delete_elsewhere(block), hk_delete_not_mine(block, hot, offset),
               hk_delete_medium(block, hot, offset), hk_delete_full(block, hot, offset));
}

/* Makes the call `call`. If the guard is on, and `ours` says that the program has not replaced the called operator, frees the block instead. */
#define UNLESS_GUARDED(ours, guarded, size, call)                                                                      \
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) && (ours))                                                           \
        hk_instrumented_free(guarded, block, size, HK_CALLER);                                                         \
    else                                                                                                               \
        call

/* Frees a block, and checks the size that delete names. Used if sizes_are_exact(). */
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
static void delete_unsized(void *block, size_t size) { return (void)size, WHOEVER(delete)(block); }
static void delete_array_unsized(void *block, size_t size) { return (void)size, WHOEVER(delete_array)(block); }

/* Returns true if the program has replaced none of these operators. Otherwise sizes are not checked, because the program's new may allocate more. */
static bool sizes_are_exact(void)
{
    return throwing_is_ours(true) && OURS(new_nothrow) && OURS(new_array_nothrow) && OURS(delete) && OURS(delete_array);
}

typedef void sized_form(void *block, size_t size);
static sized_form choose_single, choose_array;
/* The first call through each pointer stores the chosen function in the pointer, so that later calls need no test. */
static sized_form *sized_single = choose_single, *sized_array = choose_array;

/* Returns the function for sized deletes, and stores it in *chosen. Before the start, does not store it, because the guard may still be turned on. */
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
    HK_ALIGNED(HK_CACHE_LINE) void *hk_operator_##form parameters { return serve(align, size, HK_KIND_##kind); }       \
    HK_REPLACES(void *, _##symbol, parameters, hk_operator_##form)
#define HK_DELETE(form, symbol, parameters, serve)                                                                     \
    HK_ALIGNED(HK_CACHE_LINE) void hk_operator_##form parameters { serve; }                                            \
    HK_REPLACES(void, _##symbol, parameters, hk_operator_##form)
#include "api/operators.def"
