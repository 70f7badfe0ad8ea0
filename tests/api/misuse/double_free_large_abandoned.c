/* Frees a block of 40 KiB twice after its thread has ended. */
#include "misuse.h"

static void *make(void *unused)
{
    (void)unused;
    /* The second block keeps the slab from being released. */
    void *p = malloc(40 * KIB), *stays = malloc(40 * KIB);
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
