/* Frees a small block in the thread that owns it, and then in another thread. */
#include "misuse.h"

static void *free_it(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    void *p = bad(malloc(200));
    free(p);
    pthread_create(&thread, NULL, free_it, p);
    pthread_join(thread, NULL);
    malloc_trim(0);
    return 0;
}
