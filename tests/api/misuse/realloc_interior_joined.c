/* Calls realloc with a larger size for a pointer into a joined block. */
#include "joined_block.h"

int main(void)
{
    char *p = realloc(bad(inside(a_joined(), JOINED_SMALL)), 2 * JOINED_SIZE);
    malloc_trim(0);
    return p == NULL;
}
