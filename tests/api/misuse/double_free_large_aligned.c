/* A block of 100 bytes at a multiple of 64 KiB, which makes it a large one, freed twice. */
#include "misuse.h"

int main(void)
{
    void *p = bad(aligned_alloc(64 * KIB, 100));
    free(p);
    free(p);
    return 0;
}
