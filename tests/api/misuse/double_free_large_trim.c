/* Frees a block of 500 KiB, purges its memory, and frees the block again. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(500 * KIB));
    free(p);
    malloc_trim(0);
    free(p);
    malloc_trim(0);
    return 0;
}
