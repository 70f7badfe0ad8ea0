/* Usage: test_signals [steps]
 * Tests a heap that a timer interrupts at any instruction, thousands of times per second. The signal handler does not allocate, but it uses
 * the stack and errno. The heap must work, and none of its system calls may fail with EINTR. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INTERVAL_NS = 50000, THREADS = 3, BLOCKS = 1000, STEPS = 60000 };

static atomic_uint x_signals;
static volatile int trampled;
static unsigned long steps = STEPS; /* number of steps of each thread; set before the threads start */

static void on_signal(int number)
{
    int saved = errno;
    unsigned char stack[4096];
    memset(stack, number, sizeof stack);
    trampled = stack[number];
    errno = EINTR;
    atomic_fetch_add(&x_signals, 1);
    errno = saved;
}

static void *use_heap(void *argument)
{
    struct rng rng = rng_seeded((uintptr_t)argument);
    void *block[BLOCKS] = {NULL};
    size_t size[BLOCKS] = {0};
    for (unsigned long i = 0; i < steps; i++) {
        uint32_t slot = rng_below(&rng, BLOCKS);
        uint32_t draw = rng_below(&rng, 1000);
        if (block[slot]) {
            CHECK(pattern_holds(block[slot], size[slot], slot), "%zu bytes", size[slot]);
            free(block[slot]);
            block[slot] = NULL;
        } else {
            size[slot] = 1 + (draw < 2    ? rng_below(&rng, 3u << 20)
                              : draw < 20 ? rng_below(&rng, 200000)
                                          : rng_below(&rng, 2000));
            block[slot] = draw % 5 ? malloc(size[slot]) : calloc(1, size[slot]);
            CHECK(block[slot] != NULL, "%zu bytes: errno %d", size[slot], errno);
            CHECK(draw % 5 || all_zero(block[slot], size[slot]), "calloc of %zu bytes", size[slot]);
            pattern_fill(block[slot], size[slot], slot);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
    }
    check_thread_done();
    return NULL;
}

int main(int argc, char **argv)
{
    timer_t timer;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART, so that calls can fail with EINTR */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec interval = {{0, INTERVAL_NS}, {0, INTERVAL_NS}};
    pthread_t thread[THREADS];
    if (argc > 1) {
        steps = strtoul(argv[1], NULL, 10);
    }
    watchdog_start(120, "signals");
    sigaction(SIGUSR1, &action, NULL);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create: errno %d", errno);
    CHECK(timer_settime(timer, 0, &interval, NULL) == 0, "timer_settime: errno %d", errno);
    for (uintptr_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, use_heap, (void *)t) == 0, "thread");
    }
    use_heap((void *)(uintptr_t)99);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    timer_delete(timer);
    unsigned signals = atomic_load(&x_signals);
    printf("signals: %u arrived\n", signals);
    fflush(stdout);
    CHECK(signals > 100, "only %u signals arrived", signals);
    return check_report("signals");
}
