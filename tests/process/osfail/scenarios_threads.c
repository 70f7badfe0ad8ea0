/* In these scenarios threads begin, free each other's blocks, and end while some of their blocks are live. If the order of calls matters, one
 * thread runs at a time. */
#include "process/osfail/scenarios.h"

#include <pthread.h>
#include <sched.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "process/osfail/held.h"
#include "support/check.h"

enum { MOST = 2048, AT_ONCE = 3 };
static struct held held[MOST];

struct part {
    size_t size, from, to;
};

static void in_thread(void *(*run)(void *part), struct part *part)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, part) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void *get_part(void *given)
{
    const struct part *part = given;
    for (size_t i = part->from; i < part->to; i++)
        held_get(&held[i], HELD_MALLOC, 16, part->size);
    check_thread_done();
    return NULL;
}

static void *put_part(void *given)
{
    const struct part *part = given;
    for (size_t i = part->from; i < part->to; i++)
        held_put(&held[i]);
    check_thread_done();
    return NULL;
}

static void *get_and_put_part(void *given)
{
    get_part(given);
    return put_part(given);
}

static void begin_and_end(size_t size, size_t count)
{
    for (size_t i = 0; i < 4; i++)
        in_thread(get_and_put_part, &(struct part){size, 0, count});
}

static void at_once(size_t size, size_t count)
{
    pthread_t threads[AT_ONCE];
    struct part parts[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) {
        parts[i] = (struct part){size, i * count, (i + 1) * count};
        CHECK(pthread_create(&threads[i], NULL, get_and_put_part, &parts[i]) == 0, "no thread");
    }
    for (size_t i = 0; i < AT_ONCE; i++)
        pthread_join(threads[i], NULL);
}

static void freed_elsewhere(size_t size, size_t count)
{
    get_part(&(struct part){size, 0, count});
    in_thread(put_part, &(struct part){size, 0, count});
    get_part(&(struct part){size, 0, count});
    put_part(&(struct part){size, 0, count});
}

static void left_behind(size_t size, size_t count)
{
    in_thread(get_part, &(struct part){size, 0, count});
    put_part(&(struct part){size, 0, count});
}

/* One thread frees half of the blocks. A second thread allocates into the holes. A third thread frees all. */
static void handed_on(size_t size, size_t count)
{
    in_thread(get_part, &(struct part){size, 0, count});
    in_thread(put_part, &(struct part){size, 0, count / 2});
    in_thread(get_part, &(struct part){size, 0, count / 2});
    in_thread(put_part, &(struct part){size, 0, count});
}

static void *use_after_end(void *given)
{
    get_part(given);
    hk_tcache_end();
    const struct part *part = given;
    struct held late;
    for (size_t i = part->from; i < part->to; i++) {
        held_get(&late, HELD_CALLOC, 16, part->size);
        if (late.block != NULL)
            held_resize(&late, part->size * 2);
        held_put(&late);
        held_put(&held[i]);
    }
    check_thread_done();
    return NULL;
}

static void after_the_end(size_t size, size_t count) { in_thread(use_after_end, &(struct part){size, 0, count}); }

/* Tests an owner that is alive while another thread frees the owner's blocks. In each round more blocks are freed than an outbox holds. */
static _Atomic int turn;

static void *put_on_turn(void *given)
{
    for (int round = 0; round < 3; round++) {
        while (atomic_load(&turn) != 1)
            sched_yield();
        const struct part *part = given;
        for (size_t i = part->from; i < part->to; i++)
            held_put(&held[i]);
        atomic_store(&turn, 0);
    }
    check_thread_done();
    return NULL;
}

static void by_turns(size_t size, size_t count)
{
    pthread_t thread;
    struct part part = {size, 0, count};
    atomic_store(&turn, 0);
    CHECK(pthread_create(&thread, NULL, put_on_turn, &part) == 0, "no thread");
    for (int round = 0; round < 3; round++) {
        get_part(&part);
        atomic_store(&turn, 1);
        while (atomic_load(&turn) != 0)
            sched_yield();
    }
    pthread_join(thread, NULL);
}

static void *resize_part(void *given)
{
    const struct part *part = given;
    for (size_t i = part->from; i < part->to; i++)
        if (held[i].block != NULL)
            held_resize(&held[i], part->size * 3);
    check_thread_done();
    return NULL;
}

static void resized_elsewhere(size_t size, size_t count)
{
    in_thread(get_part, &(struct part){size, 0, count});
    in_thread(resize_part, &(struct part){size, 0, count});
    resize_part(&(struct part){size / 2, 0, count});
    put_part(&(struct part){size, 0, count});
}

const struct scenario scenarios_threads[] = {
    {"threads begin and end", begin_and_end, 64, 300, 0, 0},
    {"threads begin and end, medium", begin_and_end, 100000, 10, 0, 0},
    {"threads begin and end, large", begin_and_end, 1500000, 3, 0, 0},
    {"threads at once", at_once, 200, 400, 0, 0},
    {"threads at once, medium", at_once, 150000, 8, 0, 0},
    {"freed elsewhere, small", freed_elsewhere, 32, 1000, 0, 0},
    {"freed elsewhere, small", freed_elsewhere, 5000, 60, 0, 0},
    {"freed elsewhere, medium", freed_elsewhere, 70000, 12, 0, 0},
    {"left behind, small", left_behind, 96, 1000, 0, 0},
    {"left behind, medium", left_behind, 120000, 12, 0, 0},
    {"left behind, large", left_behind, 1200000, 4, 0, 0},
    {"handed on", handed_on, 512, 400, 0, 0},
    {"after a thread's end", after_the_end, 700, 100, 0, 0},
    {"by turns, small", by_turns, 16, 800, 0, 0},
    {"by turns, small", by_turns, 9000, 40, 0, 0},
    {"resized elsewhere", resized_elsewhere, 20000, 20, 0, 0},
    {"threads, address space scarce", begin_and_end, 3000, 40, (size_t)256 << 20, 0},
    {NULL, NULL, 0, 0, 0, 0},
};
