/* A block of 100 bytes, aligned to 64 KiB and so a large one, that is freed twice. */
#include "misuse.h"

int main(void)
{
    void *p = bad(aligned_alloc(64 * KIB, 100));
    free(p);
    free(p);
    return 0;
}
