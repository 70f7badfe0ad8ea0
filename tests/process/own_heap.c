/* This library has an allocator of its own. It exports some of its functions, which the loader may bind to those of another library, and hides
 * the others.
 *   OWN=1  defines operator new and delete, and uses its program's malloc
 *   OWN=2  defines malloc too
 *   OWN=0  defines no allocator, needs a library that has one, and shares objects with this library */
#include "own_heap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

void *_Znwm(size_t size);
void *_Znam(size_t size);
void _ZdlPv(void *p);
void *own_new_nothrow(size_t size);
void own_delete_array(void *p);

extern const struct own_heap own_heap;

#if OWN
enum { ARENA = 1 << 20, STEP = 16 };
static _Alignas(STEP) char arena[ARENA];
static size_t used;

static int is_own(const void *p) { return (const char *)p >= arena && (const char *)p < arena + ARENA; }

static void *take_own(size_t size)
{
    size_t at = __atomic_fetch_add(&used, (size + STEP - 1) / STEP * STEP, __ATOMIC_RELAXED);
    return at + size <= ARENA ? arena + at : NULL;
}

static void end_own(const void *p)
{
    if (p != NULL && !is_own(p)) {
        fputs("own_heap: a block of another allocator\n", stderr);
        abort();
    }
}

void *_Znwm(size_t size) { return take_own(size); }
void *_Znam(size_t size) { return take_own(size); }
void _ZdlPv(void *p) { end_own(p); }
HIDDEN void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag);
HIDDEN void _ZdaPv(void *p);
HIDDEN void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    (void)tag;
    return take_own(size);
}
HIDDEN void _ZdaPv(void *p) { end_own(p); }
/* Another library, which needs this one, calls these two functions. */
void *own_new_nothrow(size_t size) { return _ZnwmRKSt9nothrow_t(size, ""); }
void own_delete_array(void *p) { _ZdaPv(p); }
#endif

#if OWN == 2
HIDDEN void *calloc(size_t count, size_t size);
HIDDEN void *realloc(void *p, size_t size);
void *malloc(size_t size) { return take_own(size); }
void free(void *p) { end_own(p); }
HIDDEN void *calloc(size_t count, size_t size) { return take_own(count * size); }
HIDDEN void *realloc(void *p, size_t size)
{
    end_own(p);
    return take_own(size);
}
#endif

static int forms_agree(void)
{
    void *single = _Znwm(100), *array = _Znam(100), *nothrow = own_new_nothrow(100);
    own_delete_array(array);
    own_delete_array(single);
    _ZdlPv(nothrow);
#if OWN == 2
    void *plain = malloc(100), *zeroed = calloc(1, 100), *grown = realloc(plain, 200);
    free(zeroed);
    return is_own(single) && is_own(plain) && is_own(zeroed) && is_own(grown);
#else
    return single && array && nothrow;
#endif
}

/* Checks blocks of the C library. With OWN=2 it checks nothing, because on the C library alone the two heaps would not match either. */
static int library_agrees(void)
{
#if OWN != 2
    char *copy = strdup("allocated by the C library"), *printed = NULL;
    if (asprintf(&printed, "%s, %d", copy, 7) < 0)
        return 0;
    free(copy);
    free(realloc(printed, 3000));
#endif
    return 1;
}

static void *give(size_t size) { return malloc(size); }
static void take(void *p) { free(p); }

static const char *file_of_give(void)
{
    Dl_info where;
    void *address, *(*function)(size_t) = malloc;
    memcpy(&address, &function, sizeof address);
    return dladdr(address, &where) ? where.dli_fname : "?";
}

static void *born;

__attribute__((constructor)) static void begin(void)
{
    if (!forms_agree() || !library_agrees())
        abort();
    born = give(1000);
}

__attribute__((destructor)) static void end(void) { take(born); }

const struct own_heap own_heap = {forms_agree, library_agrees, give, take, file_of_give};
