/* Calls realloc for a pointer into a block of 5 MiB. */
#include "misuse.h"

int main(void)
{
    free(realloc(bad(inside(malloc(5 * MIB), 8192)), 6 * MIB));
    malloc_trim(0);
    return 0;
}
