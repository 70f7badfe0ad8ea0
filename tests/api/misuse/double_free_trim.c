/* A small block freed twice; the cache is flushed by malloc_trim. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(64));
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
