/* Frees a block of 200 KiB again after a thousand other blocks of this size were allocated and freed. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(200 * KIB));
    free(p);
    for (int i = 0; i < 1000; i++)
        free(malloc(200 * KIB));
    free(p);
    return 0;
}
