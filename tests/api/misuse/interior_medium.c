/* Frees a pointer one page into a block of 20 KiB. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(20 * KIB), 4096)));
    malloc_trim(0);
    return 0;
}
