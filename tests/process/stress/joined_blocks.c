/* Usage: test_joined_blocks
 * Tests joined blocks (slab/joined_blocks.h). Most of a heap of small blocks is freed. Then larger blocks are allocated, which join free small
 * blocks between the live ones. All usable bytes are written and checked. Joined and small blocks are resized and aligned. Other threads free them
 * while their owner uses the same slabs. Some outlive their threads, and some are freed in a forked child. Each check of the heap must pass. */
#include "report/heap_stats.h"
#include "slab/joined_blocks.h"
#include "support/check.h"
#include "support/heap.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "support/watchdog.h"
#include "unit/invariants.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SMALL = 400000,
    LEFT_OF_FIVE = 1,
    LARGE = 16000,
    OF_THREAD = 2000,
    PASSED_ON = 512,
    PASSES = 60000,
    OF_C_LIBRARY = 16 /* number of blocks that the C library keeps for threads */
};

/* Under the thread sanitizer, a process that has several threads cannot fork. */
#ifdef __SANITIZE_THREAD__
enum { CHILDREN = 0 };
#else
enum { CHILDREN = 8 };
#endif

struct held {
    void *p;
    size_t size;
    uint64_t seed;
};

static struct held small[SMALL], large[LARGE], of_thread[OF_THREAD], passed_on[PASSED_ON];
static pthread_mutex_t passing = PTHREAD_MUTEX_INITIALIZER;
static struct hk_heap_stats heap_stats;

/* Checks the heap, unless there is a background thread, because counts may be out of date while this thread works. */
static void check_heap(const char *when)
{
    const char *wrong = getenv("HAKMEM_BACKGROUND") == NULL ? heap_is_wrong(&heap_stats) : NULL;
    CHECK(wrong == NULL, "%s: %s", when, wrong);
}

static void fill(struct held *h, void *p, uint64_t seed)
{
    CHECK(p != NULL, "no memory");
    *h = (struct held){p, heap_usable_size(p), seed};
    pattern_fill(h->p, h->size, seed);
}

static void look(const struct held *h)
{
    CHECK(h->p == NULL || pattern_holds(h->p, h->size, h->seed), "block %ju, %zu bytes", (uintmax_t)h->seed, h->size);
}

static void drop(struct held *h)
{
    look(h);
    heap_free(h->p);
    h->p = NULL;
}

static void look_at_all(const struct held *h, size_t n)
{
    for (size_t i = 0; i < n; i++)
        look(&h[i]);
}

static void count_joined(struct hk_descriptor *descriptor, void *sum)
{
    const struct hk_slab *slab = hk_slab_of(descriptor);
    *(size_t *)sum += slab != NULL ? slab->joined : 0;
}

static size_t joined(void)
{
    size_t sum = 0;
    hk_descriptors_visit(count_joined, &sum);
    return sum;
}

/* Builds slabs that have four fifths of their blocks free. No block is allocated after the last sweep. */
static void build(struct rng *rng)
{
    for (size_t i = 0; i < SMALL; i++)
        fill(&small[i], heap_malloc(129 + rng_below(rng, 128)), i);
    for (size_t i = 0; i < SMALL; i++)
        if (rng_below(rng, 5) >= LEFT_OF_FIVE)
            drop(&small[i]);
    heap_trim(0);
    CHECK(joined() == 0, "%zu", joined());
}

static void move_in(struct rng *rng, struct held *h, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fill(&h[i], heap_malloc(300 + rng_below(rng, 1800)), i);
}

/* Grows and shrinks blocks. realloc must keep the bytes that both sizes have in common. */
static void resize(struct rng *rng)
{
    for (size_t i = 0; i < LARGE; i += 3) {
        size_t size = 16 + rng_below(rng, 4000), common = size < large[i].size ? size : large[i].size;
        void *p = heap_realloc(large[i].p, size);
        CHECK(pattern_holds(p, common, large[i].seed), "block %zu, resized to %zu", i, size);
        CHECK(heap_usable_size(p) >= size, "block %zu", i);
        fill(&large[i], p, i);
    }
}

/* Allocates aligned blocks. At this point the bins hold joined blocks, which do not have the usual alignment of their size. */
static void align(void)
{
    static struct held aligned[512];
    for (size_t i = 1; i < LARGE; i += 3)
        drop(&large[i]);
    for (size_t i = 0; i < 512; i++) {
        size_t boundary = (size_t)256 << i % 3;
        fill(&aligned[i], heap_memalign(boundary, 1024), i);
        CHECK((uintptr_t)aligned[i].p % boundary == 0, "%p is not aligned to %zu", aligned[i].p, boundary);
    }
    for (size_t i = 0; i < 512; i++)
        drop(&aligned[i]);
    for (size_t i = 1; i < LARGE; i += 3)
        fill(&large[i], heap_malloc(1000), i);
}

/* Frees blocks of other threads, and allocates joined blocks that outlive this thread. */
static void *be_stranger(void *given)
{
    struct rng rng = rng_seeded(3);
    for (size_t i = 0; i < LARGE; i += 2)
        drop(&large[i]);
    for (size_t i = 0; i < SMALL; i += 4)
        drop(&small[i]);
    struct held *own = calloc(SMALL / 2, sizeof *own);
    for (size_t i = 0; i < SMALL / 2; i++)
        fill(&own[i], heap_malloc(200), i);
    for (size_t i = 0; i < SMALL / 2; i++)
        if (i % 8 != 0)
            drop(&own[i]);
    heap_trim(0);
    move_in(&rng, of_thread, OF_THREAD);
    for (size_t i = 0; i < SMALL / 2; i++)
        drop(&own[i]);
    free(own);
    check_thread_done();
    return given;
}

static void run_stranger(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, be_stranger, NULL);
    pthread_join(thread, NULL);
}

static struct held exchange(size_t place, struct held given)
{
    pthread_mutex_lock(&passing);
    struct held found = passed_on[place];
    passed_on[place] = given;
    pthread_mutex_unlock(&passing);
    return found;
}

static void *be_receiver(void *given)
{
    struct rng rng = rng_seeded(4);
    for (size_t i = 0; i < PASSES; i++) {
        struct held found = exchange(rng_below(&rng, PASSED_ON), (struct held){0});
        drop(&found);
    }
    check_thread_done();
    return given;
}

/* Forks while blocks are passed on. The child checks its copies of the blocks, and frees some. */
static void pass_in_child(struct rng *rng)
{
    pthread_mutex_lock(&passing);
    pid_t child = fork();
    pthread_mutex_unlock(&passing);
    if (child != 0) {
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
        return;
    }
    check_heap("in a child while blocks are passed on");
    for (size_t i = 0; i < PASSED_ON; i++)
        drop(&passed_on[i]);
    move_in(rng, passed_on, PASSED_ON);
    look_at_all(passed_on, PASSED_ON);
    look_at_all(small, SMALL);
    look_at_all(large, LARGE);
    check_heap("at the child's end");
    check_thread_done();
    _exit(check_failures() != 0);
}

static void pass_on_small(struct rng *rng, struct held *h)
{
    struct held found = exchange(rng_below(rng, PASSED_ON), *h);
    h->p = NULL;
    drop(&found);
}

/* The owner allocates joined blocks and small blocks, and frees some. Another thread frees blocks in the same slabs at the same time. */
static void flush_remote(struct rng *rng, size_t forks)
{
    pthread_t thread;
    pthread_create(&thread, NULL, be_receiver, NULL);
    for (size_t i = 0; i < PASSES; i++) {
        size_t of_large = rng_below(rng, LARGE), of_small = rng_below(rng, SMALL);
        if (forks > 0 && i % (PASSES / forks) == PASSES / forks / 2)
            pass_in_child(rng);
        struct held found = exchange(rng_below(rng, PASSED_ON), large[of_large]);
        drop(&found);
        fill(&large[of_large], heap_malloc(300 + rng_below(rng, 1800)), i);
        if (i % 4 == 0)
            pass_on_small(rng, &small[of_small]);
    }
    pthread_join(thread, NULL);
    CHECK(joined() > LARGE / 4, "%zu blocks are part of a joined block", joined());
    for (size_t i = 0; i < PASSED_ON; i++)
        drop(&passed_on[i]);
    check_heap("passed on");
}

static void drop_all(void)
{
    for (size_t i = 0; i < OF_THREAD; i++)
        drop(&of_thread[i]);
    for (size_t i = 0; i < LARGE; i++)
        drop(&large[i]);
    for (size_t i = 0; i < SMALL; i++)
        drop(&small[i]);
    heap_trim(0);
    CHECK(joined() < OF_C_LIBRARY, "%zu blocks are part of a joined block", joined());
    check_heap("empty");
}

static void fork_and_drop(void)
{
    pid_t child = fork();
    if (child == 0) {
        check_heap("in the child");
        drop_all();
        check_thread_done();
        _exit(check_failures() != 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
}

int main(void)
{
    struct rng rng = rng_seeded(1);
    watchdog_start(1800, "joined_blocks");
    build(&rng);
    move_in(&rng, large, LARGE);
    CHECK(joined() > LARGE, "%zu blocks are part of a joined block", joined());
    check_heap("joined");
    look_at_all(small, SMALL);
    look_at_all(large, LARGE);
    flush_remote(&rng, CHILDREN);
    resize(&rng);
    check_heap("resized");
    align();
    check_heap("aligned");
    run_stranger();
    check_heap("freed by a stranger");
    look_at_all(small, SMALL);
    look_at_all(large, LARGE);
    fork_and_drop();
    drop_all();
    return check_report("joined_blocks");
}
