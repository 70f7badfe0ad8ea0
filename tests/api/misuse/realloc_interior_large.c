/* Calls realloc for a pointer into a block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    void *p = realloc(bad(inside(malloc(100 * KIB), 64)), 90 * KIB);
    free(p);
    return 0;
}
