/* Calls free_sized for a block of 100 KiB, with a larger size. */
#include "misuse.h"

int main(void)
{
    free_sized(bad(malloc(100 * KIB)), 200 * KIB);
    return 0;
}
