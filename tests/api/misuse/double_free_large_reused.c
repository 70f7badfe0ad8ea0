/* Frees a block of 200 KiB, allocates it again, frees it by its old pointer, and then frees it by its new pointer. */
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
