/* Frees a pointer into a block of 64 bytes. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(64), 16)));
    malloc_trim(0);
    return 0;
}
