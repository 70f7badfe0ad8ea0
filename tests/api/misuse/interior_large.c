/* Frees a pointer into a block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(100 * KIB), 4096)));
    malloc_trim(0);
    return 0;
}
