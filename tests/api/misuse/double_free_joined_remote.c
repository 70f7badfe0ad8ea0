/* A joined block that is freed by another thread and then by its owner. */
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
