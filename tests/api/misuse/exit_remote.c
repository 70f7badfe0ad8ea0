/* Frees a small block in a thread, which then ends, and again in the main thread, which owns the block. */
#include "misuse.h"

static void *free_it(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    void *p = bad(malloc(64));
    pthread_create(&thread, NULL, free_it, p);
    pthread_join(thread, NULL);
    free(p);
    return 0;
}
