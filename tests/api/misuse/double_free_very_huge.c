/* Frees a block of 300 MiB twice. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc((size_t)300 * MIB));
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
