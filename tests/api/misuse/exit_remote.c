/* A small block freed by a thread that has ended, and by main, whose block it is. */
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
