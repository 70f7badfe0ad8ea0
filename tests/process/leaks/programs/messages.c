/* In this program four threads handle messages. Each thread has a ring of its recent results. Urgent messages are never freed. */
#include "run.h"

#include <pthread.h>

enum { THREADS = 4, RECENT = 200, MESSAGE = 500, RESULT = 800 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *volatile urgent;

static __attribute__((noinline)) void *new_message(void) { return memset(malloc(MESSAGE), 'm', MESSAGE); /* LEAK */ }

static __attribute__((noinline)) void *new_result(void) { return memset(malloc(RESULT), 'r', RESULT); }

static void *serve(void *unused)
{
    void *recent[RECENT] = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 5; i++) {
            void *message = new_message();
            pthread_mutex_lock(&lock);
            if (i == 0)
                urgent = message;
            pthread_mutex_unlock(&lock);
            if (i != 0)
                free(message);
        }
        free(recent[round % RECENT]);
        recent[round % RECENT] = new_result();
        end_round();
    }
    for (unsigned i = 0; i < RECENT; i++)
        free(recent[i]);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, serve, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}
