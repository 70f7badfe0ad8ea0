/* Tests a thread with a pending cancellation that calls malloc. The thread must continue until it enables cancellation itself, even if HAKMEM
 * writes files during malloc. No lock may stay held, because a later fork would then hang. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/check.h"

enum { BLOCKS = 2000, MS = 700 }; /* enough time for some ticks of the learner */

static _Atomic bool cancelled_already, came_through;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *allocate(void *unused)
{
    static void *blocks[BLOCKS];
    while (!cancelled_already) {}
    for (double end = now_ms() + MS; now_ms() < end;) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = malloc((size_t)(i % 30) * 1000 + 16);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    came_through = true;
    pthread_testcancel();
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *result;
    alarm(60);
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0, "refused");
    CHECK(pthread_cancel(thread) == 0, "refused");
    cancelled_already = true;
    CHECK(pthread_join(thread, &result) == 0, "refused");
    CHECK(came_through, "cancelled inside malloc");
    CHECK(result == PTHREAD_CANCELED, "not cancelled where it said that it may be");
    pid_t child = fork();
    if (child == 0)
        _exit(malloc(100) == NULL);
    int status;
    CHECK(waitpid(child, &status, 0) == child, "refused");
    CHECK(status == 0, "the child: status 0x%x", (unsigned)status);
    return check_report("cancelled");
}
