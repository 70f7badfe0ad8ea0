/* Calls malloc_usable_size for a pointer into a block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    return malloc_usable_size(bad(inside(malloc(100 * KIB), 32 * KIB))) == 0;
    return 0;
}
