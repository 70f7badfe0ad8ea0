/* Frees a pointer one byte into a block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(100 * KIB), 1)));
    return 0;
}
