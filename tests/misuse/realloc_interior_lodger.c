/* realloc, to more, of a pointer into a block that lies between smaller ones. */
#include "lodger.h"

int main(void)
{
    char *p = realloc(bad(inside(a_lodger(), LODGER_SMALL)), 2 * LODGER_SIZE);
    malloc_trim(0);
    return p == NULL;
}
