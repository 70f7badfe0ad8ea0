/* Frees a block of 2 MiB twice. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(2 * MIB));
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
