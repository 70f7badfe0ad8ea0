/* Usage: test_thread_churn [threads]
 * Tests threads that run one after the other. Each thread allocates, frees, and leaves a few blocks that later threads free. RSS must not grow. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 60, LEFT_BEHIND = 5, KEPT = 200, ALLOWED_KIB = 2048 };

struct life {
    uint64_t number;
    void *left[LEFT_BEHIND];
    size_t size[LEFT_BEHIND];
};

static void *live(void *argument)
{
    struct life *life = argument;
    struct rng rng = rng_seeded(life->number);
    void *block[BLOCKS];
    size_t size[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size[i] = i % 20 == 19 ? 1 + rng_below(&rng, 200000) : 1 + rng_below(&rng, 2000);
        block[i] = malloc(size[i]);
        CHECK(block[i] != NULL, "%zu bytes", size[i]);
        pattern_fill(block[i], size[i], life->number + i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(pattern_holds(block[i], size[i], life->number + i), "life %ju, block %zu", (uintmax_t)life->number, i);
        if (i < LEFT_BEHIND) {
            life->left[i] = block[i];
            life->size[i] = size[i];
        } else {
            free(block[i]);
        }
    }
    check_thread_done();
    return NULL;
}

/* Frees the blocks that an ended thread left, after KEPT more threads have run. Runs in the main thread or in another thread. */
static void bury(struct life *life)
{
    for (size_t i = 0; i < LEFT_BEHIND && life->left[i]; i++) {
        CHECK(pattern_holds(life->left[i], life->size[i], life->number + i), "left by life %ju",
              (uintmax_t)life->number);
        free(life->left[i]);
        life->left[i] = NULL;
    }
}

static void *bury_as_thread(void *argument)
{
    bury(argument);
    check_thread_done();
    return NULL;
}

static bool run_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);
    CHECK(error == 0, "pthread_create: %d", error);
    return error == 0 && pthread_join(thread, NULL) == 0;
}

int main(int argc, char **argv)
{
    static struct life lives[KEPT];
    uint64_t threads = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    size_t settled = 0;
    watchdog_start(600, "thread churn");
    procinfo_forbid_huge_pages();
    for (uint64_t n = 0; n < threads; n++) {
        struct life *life = &lives[n % KEPT];
        if (n % 7 == 3) {
            run_thread(bury_as_thread, life);
        } else {
            bury(life);
        }
        life->number = n;
        if (!run_thread(live, life)) {
            break;
        }
        if (n == threads / 10) {
            settled = procinfo_rss_kib();
        }
    }
    size_t rss = procinfo_rss_kib();
    printf("thread churn: %ju threads, RSS %zu KiB after a tenth, %zu KiB at the end\n", (uintmax_t)threads, settled,
           rss);
    fflush(stdout);
    CHECK(rss <= settled + ALLOWED_KIB + procinfo_of_ended_kib(threads), "RSS grew from %zu to %zu KiB", settled, rss);
    for (size_t i = 0; i < KEPT; i++) {
        bury(&lives[i]);
    }
    return check_report("thread churn");
}
