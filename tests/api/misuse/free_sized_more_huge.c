/* Calls free_sized for a block of 3 MiB, with a larger size. */
#include "misuse.h"

int main(void)
{
    free_sized(bad(malloc(3 * MIB)), 4 * MIB);
    return 0;
}
