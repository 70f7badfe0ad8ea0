/* Avoids a false report of valgrind's memcheck 3.19 by refusing mremap. If mremap moves and extends a mapping, memcheck takes the end of the
 * mapping for inaccessible, because it looks up the access rights of the old mapping too late. */
#include "os/os.h"

static bool no_remap(void *p, size_t old_size, size_t new_size, void *to)
{
    (void)p, (void)old_size, (void)new_size, (void)to;
    return false;
}

static void __attribute__((constructor)) refuse_remap(void) { hk_os.remap = no_remap; }
