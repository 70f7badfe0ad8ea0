/* A pointer into a block that lies between smaller ones, to where one of these would begin. */
#include "lodger.h"

int main(void)
{
    free(bad(inside(a_lodger(), 2 * LODGER_SMALL)));
    malloc_trim(0);
    return 0;
}
