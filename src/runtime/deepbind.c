/* dlopen, with plugins in mind. One that is opened with RTLD_DEEPBIND looks for names in what it needs itself before it looks in the
 * program: it finds the C library's free before HAKMEM's, and is given HAKMEM's blocks. So the flag is taken out, where HAKMEM
 * is what the rest of the process has for malloc.
 *
 * The loader knows who calls it by the return address: whose RUNPATH a name is looked for in, what $ORIGIN is, which namespace it
 * is. It has to see our caller's, and so these functions end with a jump. Only libhakmem.so has them under the C library's names
 * (cmake/HakmemLibrary.cmake): in a static program they would stand in the way of the only dlopen there is. */
#include <dlfcn.h>

#include "count/stats.h"
#include "hakmem.h"
#include "os/os.h"
#include "policy/options.h"
#include "runtime/served.h"
#include "runtime/start.h"

#pragma weak dlsym

enum { THIS_NAMESPACE = 0 }; /* LM_ID_BASE */

/* Whoever comes after HAKMEM: the C library, or another library that wants to see calls of dlopen. */
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
