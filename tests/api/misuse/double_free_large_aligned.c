/* Frees a block of 100 bytes twice. It is a large block because it is aligned to 64 KiB. */
#include "misuse.h"

int main(void)
{
    void *p = bad(aligned_alloc(64 * KIB, 100));
    free(p);
    free(p);
    return 0;
}
