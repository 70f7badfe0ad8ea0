/* Frees a small block twice in a thread that did not allocate it. Then the thread ends. */
#include "misuse.h"

static void *twice(void *p)
{
    free(p);
    free(p);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    void *p = bad(malloc(200));
    pthread_create(&thread, NULL, twice, p);
    pthread_join(thread, NULL);
    malloc_trim(0);
    return 0;
}
