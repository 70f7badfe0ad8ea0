/* Calls free_sized twice for a block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(100 * KIB));
    free_sized(p, 100 * KIB);
    free_sized(p, 100 * KIB);
    return 0;
}
