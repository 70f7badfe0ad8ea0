/* Calls free_aligned_sized for a block of 64 KiB, with a larger size. */
#include "misuse.h"

int main(void)
{
    free_aligned_sized(bad(aligned_alloc(4 * KIB, 64 * KIB)), 4 * KIB, 128 * KIB);
    return 0;
}
