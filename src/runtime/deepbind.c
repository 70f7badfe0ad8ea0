/* dlopen for plugins. A library opened with RTLD_DEEPBIND resolves names in its own dependencies before the program's: it finds the C
 * library's free before HAKMEM's, but receives HAKMEM's blocks. hak_dlopen() therefore removes the flag if HAKMEM serves the process's
 * malloc.
 *
 * The loader identifies its caller by the return address, which selects RUNPATH, $ORIGIN and the namespace. It must see the address of
 * our caller; therefore these functions end with a jump. Only libhakmem.so exports them under the C library's names
 * (cmake/HakmemLibrary.cmake): in a static program they would replace the only dlopen. */
#include <dlfcn.h>

#include "count/stats.h"
#include "hakmem.h"
#include "os/os.h"
#include "policy/options.h"
#include "runtime/served.h"
#include "runtime/start.h"

#pragma weak dlsym

enum { THIS_NAMESPACE = 0 }; /* LM_ID_BASE */

/* The next definition after HAKMEM's: the C library's, or that of another library that interposes dlopen. */
static void *next_named(const char *name) { return dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL; }

static HK_NOINLINE int without_deepbind(int mode)
{
    if (!hk_life_started() || hk_options.deepbind != HK_DEEPBIND_DROP || !hk_process_is_served())
        return mode;
    HK_COUNT(deepbind_dropped, 1);
    return mode & ~HK_DEEPBIND;
}

HK_EXPORT void *hak_dlopen(const char *file, int mode)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))next_named("dlopen");
    if ((mode & HK_DEEPBIND) != 0)
        mode = without_deepbind(mode);
    if (HK_UNLIKELY(next == NULL))
        return NULL;
    HK_BY_JUMP return next(file, mode);
}

HK_EXPORT void *hak_dlmopen(long space, const char *file, int mode)
{
    void *(*next)(long, const char *, int) = (void *(*)(long, const char *, int))next_named("dlmopen");
    if ((mode & HK_DEEPBIND) != 0 && space == THIS_NAMESPACE)
        mode = without_deepbind(mode);
    if (HK_UNLIKELY(next == NULL))
        return NULL;
    HK_BY_JUMP return next(space, file, mode);
}
