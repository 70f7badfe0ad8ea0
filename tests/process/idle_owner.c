/* Usage: test_idle_owner asleep|busy OWNERS SIZE
 * Tests that a thread uses the free blocks of threads that do not need them. The owners together allocate MIB of blocks of SIZE bytes, free every
 * second one, and stop using the class. They free in a scattered order, because their depots would keep blocks that lie together. Another thread then
 * allocates as many blocks as were freed. RSS may hardly grow.
 *   asleep  the owners wait in read()
 *   busy    the owners allocate and free blocks of another class in the meantime, by slow calls
 * Sweeps must have seen all slabs before. On a busy machine they may be late, so the test is repeated in another process with longer pauses. */
#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MIB = 50,
    MOST_OWNERS = 300,
    OTHER_SIZE = 24000,
    OTHERS = 64,
    STEP_MS = 5,
    UNUSED_FOR_MS = 1000,
    LONGEST_UNUSED_MS = 16000,
    PERCENT = 105,
    SCATTER = 7919
};

static size_t size, owners, each;
static _Atomic bool done;
static bool busy;
static int gate[2];
static pthread_barrier_t step;
static void **blocks[MOST_OWNERS];

static void sleep_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }

static void *filled(size_t bytes)
{
    void *block = malloc(bytes);
    CHECK(block != NULL, "%zu bytes", bytes);
    return memset(block, 1, bytes);
}

static void use_another_class(void)
{
    void *other[OTHERS + 1];
    for (size_t i = 0; i < OTHERS / owners + 1; i++)
        other[i] = filled(OTHER_SIZE);
    for (size_t i = 0; i < OTHERS / owners + 1; i++)
        free(other[i]);
    sleep_ms(STEP_MS);
}

static void *own(void *number)
{
    void **mine = blocks[(size_t)number];
    for (size_t i = 0; i < each / 2 * 2; i++)
        mine[i] = filled(size);
    pthread_barrier_wait(&step);
    for (size_t i = 0; i < each / 2; i++)
        free(mine[i * SCATTER % (each / 2) * 2]);
    pthread_barrier_wait(&step);
    while (busy && !atomic_load(&done))
        use_another_class();
    char end;
    CHECK(read(gate[0], &end, 1) == 0, "the gate stays open");
    for (size_t i = 1; i < each / 2 * 2; i += 2)
        free(mine[i]);
    check_thread_done();
    return NULL;
}

static void *need(void *unused)
{
    void **chain = NULL;
    for (size_t n = each / 2 * owners; n > 0; n--) {
        void **block = filled(size);
        *block = (void *)chain;
        chain = block;
    }
    size_t kib = procinfo_rss_kib();
    for (void **next; chain != NULL; chain = next) {
        next = *chain;
        free((void *)chain);
    }
    (void)unused;
    check_thread_done();
    return (void *)kib;
}

/* Returns true if RSS has hardly grown. */
static bool uses_free_blocks(long pause_ms)
{
    each = ((size_t)MIB << 20) / size / owners;
    CHECK(pipe(gate) == 0, "pipe");
    for (size_t t = 0; t < owners; t++)
        blocks[t] = calloc(each, sizeof(void *));
    pthread_t owner[MOST_OWNERS], needy;
    pthread_barrier_init(&step, NULL, (unsigned)owners + 1);
    for (size_t t = 0; t < owners; t++)
        CHECK(pthread_create(&owner[t], NULL, own, (void *)t) == 0, "owner %zu", t);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    size_t before = procinfo_rss_kib();
    sleep_ms(pause_ms);
    size_t idle = procinfo_rss_kib();
    void *after;
    CHECK(pthread_create(&needy, NULL, need, NULL) == 0, "needy");
    pthread_join(needy, &after);
    atomic_store(&done, true);
    close(gate[1]);
    for (size_t t = 0; t < owners; t++)
        pthread_join(owner[t], NULL);
    size_t held = before > idle ? before : idle;
    printf("RSS %zu KiB after the frees, %zu after %ld ms, %zu after the allocations\n", before, idle, pause_ms,
           (size_t)after);
    return (size_t)after <= held * PERCENT / 100;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4, "three arguments");
    busy = strcmp(argv[1], "busy") == 0;
    owners = strtoul(argv[2], NULL, 10);
    size = strtoul(argv[3], NULL, 10);
    int status = 1;
    for (long pause_ms = UNUSED_FOR_MS; status != 0 && pause_ms <= LONGEST_UNUSED_MS; pause_ms *= 4) {
        pid_t child = fork();
        if (child == 0) {
            watchdog_start(60, "idle owner");
            CHECK(uses_free_blocks(pause_ms), "RSS grew by more than %d %%", PERCENT - 100);
            return check_report("idle owner");
        }
        CHECK(waitpid(child, &status, 0) == child, "waitpid");
    }
    return status != 0;
}
