/* Usage: test_thread_spike [threads [blocks]]
 * Tests thousands of threads that are alive at once. Each allocates and frees a few blocks, and then all threads end. The program first runs
 * itself without the preload, and compares its resident memory with that of this run. It measures before the next call of the allocator, after
 * some work, and after a trim. */
#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_THREADS = 30000,
    MOST_BLOCKS = 8,
    STACK_BYTES = 32 * 1024,
    TICKS_MS = 1000,
    MOST_SECONDS = 30,
    BURST = 2000,
    MORE_KIB = 4096
};

static const size_t size[MOST_BLOCKS] = {64, 16, 24, 100, 256, 1000, 3000, 9000};
static size_t threads, blocks;
static pthread_barrier_t all_alive, measured;

/* The resident memory in KiB at each point of time, and the seconds of work that passed before `ticked`. */
struct seen {
    size_t before, alive, ended, ticked, trimmed;
    size_t seconds;
};

static void *live(void *unused)
{
    void *block[MOST_BLOCKS];
    for (size_t i = 0; i < blocks; i++) {
        block[i] = malloc(size[i]);
        CHECK(block[i] != NULL, "%zu bytes", size[i]);
        memset(block[i], 0x5a, size[i]);
    }
    pthread_barrier_wait(&all_alive);
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < blocks; i++)
        free(block[i]);
    check_thread_done();
    return unused;
}

static size_t all_live_and_end(void)
{
    static pthread_t thread[MOST_THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    char *stacks =
        mmap(NULL, threads * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        fprintf(stderr, "thread spike: no memory for stacks\n");
        _Exit(1);
    }
    pthread_barrier_init(&all_alive, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&measured, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < threads; i++) {
        pthread_attr_setstack(&attributes, stacks + i * STACK_BYTES, STACK_BYTES);
        int error = pthread_create(&thread[i], &attributes, live, NULL);
        if (error != 0) {
            /* The test must end at once because the threads that wait at the barrier cannot be joined. */
            fprintf(stderr, "thread spike: thread %zu: pthread_create: error %d\n", i, error);
            _Exit(1);
        }
    }
    pthread_barrier_wait(&all_alive);
    size_t rss = procinfo_rss_kib();
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    pthread_attr_destroy(&attributes);
    /* The test maps the stacks itself because the C library would keep some of the stacks that it maps. */
    munmap(stacks, threads * STACK_BYTES);
    return rss;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Works for TICKS_MS, with misses and overflows of bins. */
static void work_a_while(void)
{
    static void *volatile block[BURST];
    for (long long end = now_ms() + TICKS_MS; now_ms() < end;) {
        for (size_t i = 0; i < BURST; i++)
            block[i] = malloc(64);
        for (size_t i = 0; i < BURST; i++)
            free(block[i]);
    }
}

/* Runs the threads and returns the measurements. The work continues until at most `enough` KiB are resident, which takes a second if a processor
 * is always free. */
static struct seen spike(size_t enough)
{
    struct seen seen = {.before = procinfo_rss_kib()};
    seen.alive = all_live_and_end();
    seen.ended = seen.ticked = procinfo_rss_kib();
    for (; seen.seconds == 0 || (seen.ticked > enough && seen.seconds < MOST_SECONDS); seen.seconds++) {
        work_a_while();
        seen.ticked = procinfo_rss_kib();
    }
    malloc_trim(0);
    seen.trimmed = procinfo_rss_kib();
    return seen;
}

static void print(const char *who, const struct seen *seen)
{
    printf(
        "thread spike: %zu threads of %zu blocks, %s: RSS %zu KiB before, %zu alive, %zu ended, %zu after %zu s, %zu after a trim\n",
        threads, blocks, who, seen->before, seen->alive, seen->ended, seen->ticked, seen->seconds, seen->trimmed);
    fflush(stdout);
}

/* Runs this program without the preload, and returns its measurements. */
static struct seen control(void)
{
    struct seen seen = {0, 0, 0, 0, 0, 1};
    char self[PATH_MAX], command[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return seen;
    self[length] = 0;
    snprintf(command, sizeof command, "unset LD_PRELOAD TEST_ALLOCATOR; exec '%s' %zu %zu only", self, threads, blocks);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL)
        return seen;
    if (fscanf(pipe, "%zu %zu %zu %zu %zu", &seen.before, &seen.alive, &seen.ended, &seen.ticked, &seen.trimmed) != 5)
        memset(&seen, 0, sizeof seen);
    pclose(pipe);
    return seen;
}

int main(int argc, char **argv)
{
    threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 4000;
    blocks = argc > 2 ? strtoul(argv[2], NULL, 10) : MOST_BLOCKS;
    if (threads == 0 || threads > MOST_THREADS || blocks == 0 || blocks > MOST_BLOCKS) {
        fprintf(stderr, "thread spike: from 1 to %d threads, from 1 to %d blocks\n", MOST_THREADS, MOST_BLOCKS);
        return 2;
    }
    watchdog_start(240, "thread spike");
    procinfo_forbid_huge_pages();
    if (argc > 3) {
        struct seen seen = spike(SIZE_MAX);
        printf("%zu %zu %zu %zu %zu\n", seen.before, seen.alive, seen.ended, seen.ticked, seen.trimmed);
        return 0;
    }
    struct seen theirs = control(), ours = spike(2 * theirs.ticked);
    print("the C library", &theirs);
    print("here", &ours);
    CHECK(theirs.alive > theirs.before, "the control has not run");
    CHECK(ours.ended <= theirs.ended + MORE_KIB, "%zu KiB at the end, %zu on the C library", ours.ended, theirs.ended);
    CHECK(ours.trimmed <= theirs.trimmed, "%zu KiB after a trim, %zu on the C library", ours.trimmed, theirs.trimmed);
    CHECK(ours.ticked <= 2 * theirs.ticked, "%zu KiB after some seconds, %zu on the C library", ours.ticked,
          theirs.ticked);
    return check_report("thread spike");
}
