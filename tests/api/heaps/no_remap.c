/* For valgrind, whose memcheck (3.19) takes the end of a mapping that mremap has moved and lengthened for inaccessible: it looks up the old mapping's
 * access after its table of mappings has changed. */
#include "os/os.h"

static bool no_remap(void *p, size_t old_size, size_t new_size, void *to)
{
    (void)p, (void)old_size, (void)new_size, (void)to;
    return false;
}

static void __attribute__((constructor)) refuse_remap(void) { hk_os.remap = no_remap; }
