/* A block that lies between smaller ones freed by a thread that did not allocate it, then by the one that did. */
#include "joined_block.h"

static void *once(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    void *p = bad(a_joined());
    joined_in_thread(once, p);
    free(p);
    malloc_trim(0);
    return 0;
}
