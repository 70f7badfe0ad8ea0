/* Runs the threads of the program in turns, one at a time, so that the count of lines.c does not depend on the processors of the host. A turn is a
 * random number of accesses. A thread that may block in a system call, or that has ended, is not ready and gets no turn. */
#ifndef BENCH_LINES_TURNS_H
#define BENCH_LINES_TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { CORES = 576, THREADS = 2048 };

static struct thread {
    bool lives, ready, has_turn, wakes;
    unsigned core, left;         /* `left` is the number of accesses until the turn ends */
    uintptr_t told;              /* address at which the system call stores its answer */
    uint64_t joins_seen;         /* `joins` before the system call */
    uint64_t last_store, inside; /* `inside` is the address of the return address of the allocator's function, or 0 */
    pthread_cond_t turn;
} threads[THREADS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *current;
static bool core_taken[CORES], over;
static unsigned slice = 64, readies, highest; /* number of ready threads, and the highest index of a thread */
static uint64_t picoseconds;                  /* the program's clock */
static uint64_t joins;                        /* number of times that a thread became ready */
static pthread_cond_t joined = PTHREAD_COND_INITIALIZER;
/* The thread that starts the first other thread. Before it runs on, QEMU translates all code again, and waits until no other thread executes code.
 * So the new thread must not wait for its turn until then; its few accesses are not counted. */
static _Atomic(struct thread *) xforking;
static bool forked;

/* Returns true if the thread must run without a turn. */
static bool must_run_on(const struct thread *t)
{
    if (xforking == t)
        xforking = NULL;
    return xforking != NULL;
}

static void begin_life_locked(struct thread *t)
{
    unsigned core = 0;
    while (core < CORES && core_taken[core])
        core++;
    if (core == CORES)
        abort();
    core_taken[core] = true;
    *t = (struct thread){.lives = true, .core = core, .turn = PTHREAD_COND_INITIALIZER};
    highest = t - threads > highest ? (unsigned)(t - threads) : highest;
}

static void hand_on_locked(const struct thread *from)
{
    struct thread *next = threads + (from - threads);
    do
        next = next == threads + highest ? threads : next + 1;
    while (next != from && !next->ready);
    current = next->ready ? next : NULL;
    if (current != NULL)
        pthread_cond_signal(&current->turn);
}

static void wait_for_turn_locked(struct thread *t)
{
    static uint64_t random = 88172645463325252u;
    while (current != t && !over)
        pthread_cond_wait(&t->turn, &lock);
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    t->left = 1 + (unsigned)(random % (2 * slice - 1));
    t->has_turn = true;
    picoseconds += t->left * 1000 / readies;
}

static void take_turn(struct thread *t)
{
    pthread_mutex_lock(&lock);
    if (!t->lives)
        begin_life_locked(t);
    t->ready = true;
    readies++;
    joins++;
    pthread_cond_signal(&joined);
    if (current == NULL)
        current = t;
    wait_for_turn_locked(t);
    pthread_mutex_unlock(&lock);
}

static void end_turn(struct thread *t)
{
    pthread_mutex_lock(&lock);
    hand_on_locked(t);
    wait_for_turn_locked(t);
    pthread_mutex_unlock(&lock);
}

/* Waits until the threads that the system call has started or woken are ready, so that the order of turns does not depend on the host. */
static void wait_for_joins(const struct thread *t, uint64_t count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&lock);
    while (joins < t->joins_seen + count && pthread_cond_timedwait(&joined, &lock, &until) == 0) {}
    pthread_mutex_unlock(&lock);
}

/* Takes the thread out of the turns, because it may block or because it ends. */
static void leave(struct thread *t, bool ends)
{
    pthread_mutex_lock(&lock);
    if (t->has_turn) {
        readies--;
        t->ready = t->has_turn = false;
        hand_on_locked(t);
    }
    if (ends)
        t->lives = core_taken[t->core] = false;
    pthread_mutex_unlock(&lock);
}

#endif
