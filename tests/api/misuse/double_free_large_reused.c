/* A block of 200 KiB freed through an old pointer, when it serves again, and then by its second user. */
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
