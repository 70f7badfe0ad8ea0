/* Frees a pointer into a joined block, at the address of a former small block. */
#include "joined_block.h"

int main(void)
{
    free(bad(inside(a_joined(), 2 * JOINED_SMALL)));
    malloc_trim(0);
    return 0;
}
