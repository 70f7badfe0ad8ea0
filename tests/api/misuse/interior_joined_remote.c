/* Frees a pointer into a joined block, in a thread that did not allocate the block. */
#include "joined_block.h"

static void *once(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    joined_in_thread(once, bad(inside(a_joined(), JOINED_SMALL)));
    return 0;
}
