/* Usage: test_passed_on [generations [steps]]
 * Tests eight threads that put blocks of all sizes into slots, take blocks of other threads out, and free them. Threads end and others begin, one
 * thread trims, and the main thread forks. The child frees the blocks in the slots and continues to work. Because the program is correct, the
 * allocator must report nothing. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef STRESS_HAK
#include "hakmem.h"
#define malloc hak_malloc
#define calloc hak_calloc
#define realloc hak_realloc
#define free hak_free
#define malloc_trim hak_malloc_trim
#endif

enum { THREADS = 8, SHARDS = 16, SLOTS = 64, FORKS = 3, STEPS_BETWEEN_TRIMS = 512, EXITED_WELL = 7 };

struct passed {
    unsigned char *block;
    size_t size;
    uint64_t pattern;
};

/* Each shard has one lock. The main thread holds all of them when it forks, so that the slots are consistent in the child. */
static struct shard {
    pthread_mutex_t lock;
    struct passed slots[SLOTS];
} shards[SHARDS];

static unsigned long steps = 6000;
static atomic_bool over;

static size_t some_size(struct rng *rng)
{
    uint32_t one_of = rng_below(rng, 100);
    return 1 + rng_below(rng, one_of == 0 ? 2000000 : one_of < 3 ? 100000 : one_of < 20 ? 6000 : 300);
}

static struct passed make(struct rng *rng)
{
    struct passed made = {.size = some_size(rng), .pattern = rng_next(rng)};
    made.block = rng_below(rng, 4) == 0 ? calloc(1, made.size) : malloc(made.size);
    CHECK(made.block != NULL, "%zu bytes", made.size);
    pattern_fill(made.block, made.size, made.pattern);
    return made;
}

static void drop(const struct passed *passed)
{
    if (passed->block == NULL)
        return;
    CHECK(pattern_holds(passed->block, passed->size, passed->pattern), "%zu bytes", passed->size);
    free(passed->block);
}

/* Puts a new block into a slot, and frees the block that was in it. Some of the blocks are resized first, and most of these move. */
static void pass_on(struct rng *rng)
{
    struct shard *shard = &shards[rng_below(rng, SHARDS)];
    struct passed mine = make(rng), taken;
    struct passed *slot = &shard->slots[rng_below(rng, SLOTS)];
    pthread_mutex_lock(&shard->lock);
    taken = *slot;
    *slot = mine;
    pthread_mutex_unlock(&shard->lock);
    if (taken.block != NULL && rng_below(rng, 16) == 0) {
        size_t size = some_size(rng);
        unsigned char *resized = realloc(taken.block, size);
        CHECK(resized != NULL, "%zu bytes", size);
        free(resized);
        return;
    }
    drop(&taken);
}

static void *work(void *seed)
{
    struct rng rng = rng_seeded((uintptr_t)seed);
    for (unsigned long step = 0; step < steps; step++) {
        pass_on(&rng);
        if (rng_below(&rng, STEPS_BETWEEN_TRIMS) == 0)
            malloc_trim(0);
    }
    check_thread_done();
    return NULL;
}

static void empty_slots(void)
{
    for (int i = 0; i < SHARDS; i++)
        for (int at = 0; at < SLOTS; at++) {
            drop(&shards[i].slots[at]);
            shards[i].slots[at].block = NULL;
        }
}

static void child(void)
{
    struct rng rng = rng_seeded(77);
    watchdog_start(100, "passed on: a child");
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_unlock(&shards[i].lock);
    for (int step = 0; step < 500; step++)
        pass_on(&rng);
    empty_slots();
    malloc_trim(0);
    _exit(check_failures() == 0 ? EXITED_WELL : 1);
}

static void fork_once(void)
{
    int status = -1;
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_lock(&shards[i].lock);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child();
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_unlock(&shards[i].lock);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == EXITED_WELL,
          "a fork: wait status 0x%x", (unsigned)status);
}

/* Runs one set of threads. The main thread works between two forks too, so that its outbox holds blocks when it forks. */
static void generation(unsigned long number)
{
    pthread_t threads[THREADS];
    struct rng rng = rng_seeded(1000 + number);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(number * THREADS + i + 1)) == 0, "no thread");
    for (int i = 0; i < FORKS; i++) {
        for (unsigned long step = 0; step < steps / 8; step++)
            pass_on(&rng);
        fork_once();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *keep_trimming(void *unused)
{
    while (!over) {
        malloc_trim(0);
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    unsigned long generations = argc > 1 ? strtoul(argv[1], NULL, 10) : 3;
    pthread_t trimming;
    steps = argc > 2 ? strtoul(argv[2], NULL, 10) : steps;
    watchdog_start(600, "passed on");
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_init(&shards[i].lock, NULL);
    CHECK(pthread_create(&trimming, NULL, keep_trimming, NULL) == 0, "no thread");
    for (unsigned long i = 0; i < generations; i++)
        generation(i);
    over = true;
    pthread_join(trimming, NULL);
    empty_slots();
    return check_report("passed on");
}
