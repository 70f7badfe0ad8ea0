/* In this program a worker thread leaks a result of some jobs. The main thread allocates the same blocks and frees them. */
#include "../run.h"

#include <pthread.h>

enum { JOB = 400, RESULT = 650 };

static void *volatile result;

static __attribute__((noinline)) void *new_result(void) { return memset(malloc(RESULT), 'r', RESULT); /* LEAK */ }

static void *serve(void *unused)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 6; i++) {
            void *job = malloc(JOB);
            result = new_result();
            free(job);
            if (i != 3)
                free(result);
        }
        end_round();
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        work(20, RESULT);
        end_round();
    }
    pthread_join(thread, NULL);
}
