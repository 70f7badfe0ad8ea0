/* Frees a small block twice in the thread that allocated it. The end of the thread flushes the thread's cache. */
#include "misuse.h"

static void *allocate_and_free_twice(void *unused)
{
    void *p = bad(malloc(200));
    free(p);
    free(p);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_and_free_twice, NULL);
    pthread_join(thread, NULL);
    return 0;
}
