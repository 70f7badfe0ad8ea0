/* Frees a block, allocates and frees it again, and then frees it once more. Only the last free is wrong. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(128));
    free(p);
    void *q = malloc(128);
    free(q);
    free(p);
    malloc_trim(0);
    return 0;
}
