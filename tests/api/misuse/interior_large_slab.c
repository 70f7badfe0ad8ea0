/* Frees a pointer into a block of 500 KiB, at a multiple of 64 KiB. */
#include "misuse.h"

int main(void)
{
    uintptr_t p = (uintptr_t)malloc(500 * KIB);
    free(bad(at((p + 128 * KIB) & ~(uintptr_t)(64 * KIB - 1))));
    malloc_trim(0);
    return 0;
}
