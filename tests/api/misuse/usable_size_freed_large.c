/* Calls malloc_usable_size for a block of 100 KiB after it was freed. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(100 * KIB));
    free(p);
    return malloc_usable_size(p) == 0;
    return 0;
}
