/* Corrects a false report of valgrind 3.19. If mremap moves and extends a mapping, valgrind reads a stale segment, and may report the added part
 * as out of bounds. A loop of mmap and mremap alone shows this error. This file tells valgrind the right bounds. */
#include "os/os.h"

#include <valgrind/memcheck.h>

static bool (*real)(void *p, size_t old_size, size_t new_size, void *to);

static bool remap_and_tell(void *p, size_t old_size, size_t new_size, void *to)
{
    bool done = real(p, old_size, new_size, to);
    if (done && new_size > old_size)
        VALGRIND_MAKE_MEM_DEFINED((char *)(to != NULL ? to : p) + old_size, new_size - old_size);
    return done;
}

__attribute__((constructor)) static void begin(void)
{
    real = hk_os.remap;
    hk_os.remap = remap_and_tell;
}
