/* Calls realloc for a block of 300 MiB after it was freed. */
#include "misuse.h"

int main(void)
{
    void *p = malloc((size_t)300 * MIB);
    free(p);
    free(realloc(bad(p), (size_t)400 * MIB));
    malloc_trim(0);
    return 0;
}
