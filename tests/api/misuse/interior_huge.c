/* Frees a pointer one page into a block of 5 MiB. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(5 * MIB), 4096)));
    malloc_trim(0);
    return 0;
}
