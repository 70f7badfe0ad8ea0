/* Frees a block of 200 KiB in a parent process with two threads, and again in its fork child. */
#include "misuse.h"

#include <signal.h>
#include <sys/wait.h>

static void *sleeper(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    void *p = bad(malloc(200 * KIB));
    free(p);
    if (fork() != 0) {
        int status;
        wait(&status);
        if (WIFSIGNALED(status))
            raise(WTERMSIG(status));
        return 0;
    }
    free(p);
    return 0;
}
