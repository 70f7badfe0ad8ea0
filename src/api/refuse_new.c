/* Finds the new handler and throws std::bad_alloc through the caller's C++ library, because HAKMEM links no C++ library. */
#include "api/refuse_new.h"
#include <dlfcn.h>
#include <string.h>
#include "base/message.h"
#include "os/elf_file.h"

#pragma weak dlsym
#pragma weak dladdr

typedef hk_new_handler *get_handler(void);
typedef void throw_it(void);

/* std::get_new_handler and std::__throw_bad_alloc of the program's C++ library, if it has one. */
extern hk_new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
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

enum part { GET_HANDLER, THROW, ALLOCATE, RAISE, TYPE, TABLE, DESTROY, CXX_PARTS };
typedef struct hk_elf_wanted parts[CXX_PARTS];

enum { NOT_REMEMBERED, BEING_REMEMBERED, REMEMBERED };
static _Atomic unsigned xremembered;
static parts remembered_parts;
static uintptr_t remembered_base;

/* A C++ library inside the program, by the program's own table of symbols: the linker takes its objects only if something else needs
 * them, and zig's are hidden. The first module that asks is remembered. */
static void find_parts(const void *caller, parts found)
{
    static const struct hk_elf_wanted unknown[CXX_PARTS] = {
        {"_ZSt15get_new_handlerv", 0},   {"_ZSt17__throw_bad_allocv", 0},
        {"__cxa_allocate_exception", 0}, {"__cxa_throw", 0},
        {"_ZTISt9bad_alloc", 0},         {"_ZTVSt9bad_alloc", 0},
        {"_ZNSt9bad_allocD1Ev", 0},
    };
    struct hk_elf_loaded loaded;
    unsigned state = hk_load_acquire(xremembered);
    memcpy(found, unknown, sizeof unknown);
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

/* As __throw_bad_alloc() does. Whoever catches std::bad_alloc has its type, and the type has the rest. */
static void throw_by_parts(parts found)
{
    if (found[THROW].address != 0)
        ((throw_it *)found[THROW].address)();
    for (unsigned i = ALLOCATE; i < CXX_PARTS; i++)
        if (found[i].address == 0)
            return;
    enum { BEFORE_FUNCTIONS = 2 * sizeof(void *) };
    uintptr_t *thrown = ((void *(*)(size_t))found[ALLOCATE].address)(sizeof(void *));
    *thrown = found[TABLE].address + BEFORE_FUNCTIONS;
    ((void (*)(void *, uintptr_t, uintptr_t))found[RAISE].address)(thrown, found[TYPE].address, found[DESTROY].address);
}

hk_new_handler *hk_current_new_handler(const void *caller)
{
    get_handler *get = _ZSt15get_new_handlerv;
    parts found;
    if (get == NULL)
        get = (get_handler *)symbol_for(caller, "_ZSt15get_new_handlerv");
    if (get == NULL) {
        find_parts(caller, found);
        get = (get_handler *)found[GET_HANDLER].address;
    }
    return get != NULL ? get() : NULL;
}

_Noreturn void hk_throw_bad_alloc(const void *caller)
{
    throw_it *raise = _ZSt17__throw_bad_allocv;
    parts found;
    if (raise == NULL)
        raise = (throw_it *)symbol_for(caller, "_ZSt17__throw_bad_allocv");
    if (raise != NULL)
        raise();
    find_parts(caller, found);
    throw_by_parts(found);
    hk_fatal(HK_TEXT_new_refused);
}
