/* A block of 200 KiB that is freed through an old pointer after it was allocated again, and then by its second user. */
#include "misuse.h"

int main(void)
{
    void *p = malloc(200 * KIB);
    free(p);
    void *q = bad(malloc(200 * KIB));
    free(p);
    free(q);
    return 0;
}
