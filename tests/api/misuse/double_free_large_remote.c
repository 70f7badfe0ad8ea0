/* Frees a block of 200 KiB in another thread, whose bin keeps the block, and then in the thread that allocated it. */
#include "misuse.h"

static volatile int kept;

static void *use_and_free(void *p)
{
    free(malloc(200 * KIB));
    free(p);
    kept = 1;
    pause();
    return NULL;
}

int main(void)
{
    pthread_t thread;
    void *p = malloc(200 * KIB);
    pthread_create(&thread, NULL, use_and_free, p);
    while (!kept)
        usleep(1000);
    free(bad(p));
    return 0;
}
