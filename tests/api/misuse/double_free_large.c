/* Frees a block of 100 KiB twice. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(100 * KIB));
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
