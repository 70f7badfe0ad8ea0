/* Frees a pointer to the middle of a block of 8 MiB, at a multiple of 2 MiB. */
#include "misuse.h"

int main(void)
{
    uintptr_t p = (uintptr_t)malloc(8 * MIB);
    free(bad(at((p + 4 * MIB) & ~(uintptr_t)(2 * MIB - 1))));
    malloc_trim(0);
    return 0;
}
