/* A block of 500 KiB that is freed, purged, and freed again. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(500 * KIB));
    free(p);
    malloc_trim(0);
    free(p);
    malloc_trim(0);
    return 0;
}
