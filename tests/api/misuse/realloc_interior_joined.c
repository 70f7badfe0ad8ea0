/* realloc of a pointer into a joined block to a larger size. */
#include "joined_block.h"

int main(void)
{
    char *p = realloc(bad(inside(a_joined(), JOINED_SMALL)), 2 * JOINED_SIZE);
    malloc_trim(0);
    return p == NULL;
}
