/* A block of 40 KiB, of a thread that has ended, freed twice. */
#include "misuse.h"

static void *make(void *unused)
{
    (void)unused;
    void *p = malloc(40 * KIB), *stays = malloc(40 * KIB); /* else its slab goes with it */
    return stays != NULL ? p : NULL;
}

int main(void)
{
    pthread_t thread;
    void *p;
    pthread_create(&thread, NULL, make, NULL);
    pthread_join(thread, &p);
    free(bad(p));
    free(p);
    return 0;
}
