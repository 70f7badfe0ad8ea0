/* Frees a pointer into a block of 100 KiB, in a thread that did not allocate the block. */
#include "misuse.h"

static void *free_it(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, free_it, bad(inside(malloc(100 * KIB), 8 * KIB)));
    pthread_join(thread, NULL);
    return 0;
}
