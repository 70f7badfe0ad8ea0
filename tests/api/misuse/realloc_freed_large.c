/* Calls realloc for a block of 100 KiB after it was freed. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(100 * KIB));
    free(p);
    p = realloc(p, 110 * KIB);
    return 0;
}
