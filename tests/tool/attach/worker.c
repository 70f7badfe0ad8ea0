/* Usage: test_attach_worker MODE [THREADS]
 * Executes the commands in the lines of standard input until its end, and prints the results. The modes are:
 *   churn    "go N": each thread makes N rounds. In each round it keeps a block of 1000 bytes, allocates and frees nine blocks of 200 bytes, and
 *            sometimes one of 60000 bytes. Prints "kept BYTES churned BYTES large BYTES", the sums since the start
 *   heap     works as churn, with the blocks of 1000 and 200 bytes in a user heap
 *   hits     "go N": allocates N blocks and frees each at once, so that each call after the first is a hit
 *   longest  works as churn, and also prints the longest time that a thread spent in a call of malloc or free, in ns of its CPU time
 *   handler  works as churn, and has a handler of SIGTERM that exits with 3
 *   grow     "go N": holds N MiB in blocks of 1000 bytes, in place of the blocks that it held before
 * "fork" creates a child that executes the lines that follow. The parent waits for the end of the child. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEPT = 1000, CHURNED = 200, LARGE = 60000, CHURNS = 9, LARGE_EVERY = 50, MOST_THREADS = 512, LINE = 100 };
#define SAMPLED_HEAP __attribute__((noinline))

struct kept {
    struct kept *next;
    char rest[KEPT - sizeof(struct kept *)];
};

struct worker {
    pthread_t thread;
    struct kept *kept;
    unsigned long rounds;
    uint64_t longest_ns;
    void *volatile sink; /* prevents tail calls */
};

static struct worker workers[MOST_THREADS];
static unsigned threads = 1, done;
static unsigned long wanted, asked;
static bool measures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *heap;
static void *(*heap_malloc)(void *heap, size_t size);
static void *in_heap(size_t size) { return size == LARGE ? malloc(size) : heap_malloc(heap, size); }
static void *(*allocate)(size_t size) = malloc;

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note(struct worker *self, uint64_t began)
{
    uint64_t took = measures ? cpu_ns() - began : 0;
    if (took > self->longest_ns)
        self->longest_ns = took;
}

static SAMPLED_HEAP void keeps(struct worker *self)
{
    uint64_t began = measures ? cpu_ns() : 0;
    struct kept *kept = allocate(sizeof *kept);
    note(self, began);
    kept->next = self->kept;
    self->kept = kept;
}

static SAMPLED_HEAP void churns(struct worker *self, size_t size)
{
    uint64_t began = measures ? cpu_ns() : 0;
    self->sink = allocate(size);
    free(self->sink);
    note(self, began);
}

static SAMPLED_HEAP void large(struct worker *self) { churns(self, LARGE); }

static void make_rounds(struct worker *self, unsigned long rounds)
{
    for (unsigned long i = 0; i < rounds; i++) {
        keeps(self);
        for (int churn = 0; churn < CHURNS; churn++)
            churns(self, CHURNED);
        if (self->rounds++ % LARGE_EVERY == 0)
            large(self);
    }
}

static void *serve(void *argument)
{
    struct worker *self = argument;
    for (unsigned long served = 0;;) {
        pthread_mutex_lock(&lock);
        while (asked == served)
            pthread_cond_wait(&changed, &lock);
        served = asked;
        unsigned long rounds = wanted;
        pthread_mutex_unlock(&lock);
        make_rounds(self, rounds);
        pthread_mutex_lock(&lock);
        done++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void go(unsigned long rounds)
{
    if (threads == 1) {
        make_rounds(&workers[0], rounds);
        return;
    }
    pthread_mutex_lock(&lock);
    wanted = rounds;
    asked++;
    done = 0;
    pthread_cond_broadcast(&changed);
    while (done < threads)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void say_sums(void)
{
    unsigned long rounds = 0, large_rounds = 0;
    uint64_t longest = 0;
    for (unsigned i = 0; i < threads; i++) {
        rounds += workers[i].rounds;
        large_rounds += (workers[i].rounds + LARGE_EVERY - 1) / LARGE_EVERY;
        longest = workers[i].longest_ns > longest ? workers[i].longest_ns : longest;
    }
    if (measures)
        printf("longest %lu\n", (unsigned long)longest);
    else
        printf("kept %lu churned %lu large %lu\n", rounds * KEPT, rounds * CHURNS * CHURNED, large_rounds * LARGE);
}

static void hits(unsigned long rounds)
{
    for (unsigned long i = 0; i < rounds; i++) {
        workers[0].sink = malloc(CHURNED);
        free(workers[0].sink);
    }
    printf("hits %lu\n", rounds);
}

static SAMPLED_HEAP void grow(unsigned long mib)
{
    for (struct kept *kept = workers[0].kept, *next; kept != NULL; kept = next) {
        next = kept->next;
        free(kept);
    }
    workers[0].kept = NULL;
    for (size_t held = 0; held < mib << 20; held += KEPT) {
        keeps(&workers[0]);
        memset(workers[0].kept->rest, 1, sizeof workers[0].kept->rest);
    }
    printf("held %lu\n", mib << 20);
}

static void end_with_3(int number)
{
    (void)number;
    exit(3);
}

static void begin(const char *mode)
{
    measures = strcmp(mode, "longest") == 0;
    if (strcmp(mode, "heap") == 0) {
        heap_malloc = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "hak_heap_malloc");
        heap = ((void *(*)(const char *, size_t))dlsym(RTLD_DEFAULT, "hak_heap_create"))("worker", 0);
        allocate = in_heap;
    }
    if (strcmp(mode, "handler") == 0)
        signal(SIGTERM, end_with_3);
    for (unsigned i = 0; i < threads && threads > 1; i++)
        if (pthread_create(&workers[i].thread, NULL, serve, &workers[i]) != 0)
            exit(77);
}

static void fork_once(void)
{
    pid_t child = fork();
    int status;
    if (child != 0)
        exit(waitpid(child, &status, 0) != child || status != 0);
    printf("child %d\n", getpid());
}

/* Reads a line with read(), because stdio would allocate. Returns false at the end of the input. */
static bool next_line(char *line)
{
    for (unsigned at = 0; at < LINE - 1; at++) {
        if (read(STDIN_FILENO, line + at, 1) <= 0)
            return false;
        line[at + 1] = 0;
        if (line[at] == '\n')
            return true;
    }
    return false;
}

int main(int count, char **words)
{
    static char out[4096];
    char line[LINE];
    unsigned long n;
    const char *mode = count > 1 ? words[1] : "churn";
    setvbuf(stdout, out, _IOLBF, sizeof out);
    threads = count > 2 ? (unsigned)atoi(words[2]) : 1;
    begin(mode);
    printf("ready\n");
    while (next_line(line)) {
        if (strcmp(line, "fork\n") == 0) {
            fork_once();
        } else if (sscanf(line, "go %lu", &n) == 1 && strcmp(mode, "hits") == 0) {
            hits(n);
        } else if (sscanf(line, "go %lu", &n) == 1 && strcmp(mode, "grow") == 0) {
            grow(n);
        } else {
            go(n);
            say_sums();
        }
    }
}
