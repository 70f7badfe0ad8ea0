/* The same by a thread that did not allocate the block. */
#include "lodger.h"

static void *once(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    lodger_in_thread(once, bad(inside(a_lodger(), LODGER_SMALL)));
    return 0;
}
