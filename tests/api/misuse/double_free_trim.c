/* Frees a small block twice. malloc_trim flushes the cache. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(64));
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
