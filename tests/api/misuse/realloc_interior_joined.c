/* realloc, to more, of a pointer into a block that lies between smaller ones. */
#include "joined_block.h"

int main(void)
{
    char *p = realloc(bad(inside(a_joined(), JOINED_SMALL)), 2 * JOINED_SIZE);
    malloc_trim(0);
    return p == NULL;
}
