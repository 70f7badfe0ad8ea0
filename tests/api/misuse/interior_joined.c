/* A pointer into a block that lies between smaller ones, to where one of these would begin. */
#include "joined_block.h"

int main(void)
{
    free(bad(inside(a_joined(), 2 * JOINED_SMALL)));
    malloc_trim(0);
    return 0;
}
