/* Frees a joined block in another thread, and then in the thread that owns it. */
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
