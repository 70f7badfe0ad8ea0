/* Frees a pointer one byte into a block. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(64), 1)));
    malloc_trim(0);
    return 0;
}
