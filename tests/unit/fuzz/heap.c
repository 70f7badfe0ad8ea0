/* Tests the whole heap. The input is a program for several threads. Usually one thread runs at a time, but in bursts several threads run at once.
 *
 *   options, then steps:   an empty slot -> a block of some form;   a filled slot -> freed, resized, or its usable size requested
 *                          a switch to another thread, a thread's end, a fork, time, refusals, trims, reports
 *
 * heap_block.c checks contents, alignment and errno. shadow.c checks that no two blocks overlap. world.h checks the statistics. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/heap_block.h"
#include "unit/fuzz/heap_names.h"
#include "unit/fuzz/world.h"
#include "unit/fuzz/shadow.h"

enum { SLOTS = 1024, THREADS = 4, BURST = 3, BURST_SLOTS = 64, CELLS = 16, CONTROLS_FROM = 236, CHILD_SECONDS = 60 };

/* Describes a thread that makes steps, and the slots that belong to this thread. */
struct actor {
    struct fuzz_input *in;
    struct heap_block **slots;
    unsigned count;
};

static struct heap_block blocks[SLOTS];
static struct heap_block *slots[SLOTS];
static struct actor everything = {.slots = slots, .count = SLOTS};
static bool in_child; /* true: this process is a fork child, so it uses no other threads and does not fork */

static struct worker {
    pthread_t thread;
    sem_t wake;
    bool alive, ends;
} workers[THREADS]; /* workers[0] is the first thread */
static _Thread_local unsigned self;

/* Returns a size, which is usually small. The first byte chooses the magnitude. */
static size_t draw_size(struct fuzz_input *in)
{
    uint8_t magnitude = fuzz_byte(in);
    if (magnitude < 128)
        return fuzz_byte(in);
    if (magnitude < 204)
        return fuzz_below(in, 2048);
    if (magnitude < 244)
        return fuzz_below(in, 32769);
    if (magnitude < 254)
        return fuzz_below(in, 300000);
    return magnitude < 255 ? fuzz_below(in, 1100000) : fuzz_below(in, 6000000);
}

static void fill_slot(struct heap_block *block, struct fuzz_input *in, uint8_t op)
{
    static const uint8_t often[] = {HEAP_MALLOC, HEAP_MALLOC, HEAP_MALLOC, HEAP_MALLOC,
                                    HEAP_CALLOC, HEAP_CALLOC, HEAP_NEW};
    enum heap_how how = op < 200 ? often[op % sizeof often] : (enum heap_how)(op % HEAP_HOWS);
    size_t size = draw_size(in), align = 16;
    if (how >= HEAP_ALIGNED)
        align = (size_t)8 << fuzz_below(in, 18);
    heap_block_get(block, how, align > 16 ? align : 16, size);
}

static void step(struct actor *actor, uint8_t op)
{
    struct fuzz_input *in = actor->in;
    struct heap_block *block = actor->slots[fuzz_below(in, actor->count)];
    if (block->p == NULL)
        fill_slot(block, in, op);
    else if (op < 180)
        heap_block_put(block, op);
    else if (op < 212)
        heap_block_resize(block, draw_size(in), op % 8 == 0);
    else if (op < 224)
        heap_block_ask(block);
    else
        heap_block_check(block);
}

/* Allocates several blocks of one size in neighboring slots, or frees the blocks of neighboring slots in either direction. */
static void many(struct actor *actor, bool put)
{
    struct fuzz_input *in = actor->in;
    uint8_t count = fuzz_byte(in), way = fuzz_byte(in);
    size_t first = fuzz_below(in, actor->count), size = put ? 0 : draw_size(in);
    for (unsigned i = 0; i < count; i++) {
        struct heap_block *block = actor->slots[(first + (way % 2 == 0 ? i : count - i)) % actor->count];
        if (put && block->p != NULL)
            heap_block_put(block, 2);
        if (!put && block->p == NULL)
            heap_block_get(block, HEAP_MALLOC, 16, size <= 65536 ? size : size % 4096);
    }
    in->operations += count;
}

/* In a burst, several threads work at once. Each has its own part of the input and of the slots. A thread passes a block to another by a cell. */
static _Atomic(struct heap_block *) cells[CELLS];

static void *run_burst(void *given)
{
    struct actor *actor = given;
    while (fuzz_next(actor->in)) {
        uint8_t op = fuzz_byte(actor->in);
        if (op < CONTROLS_FROM) {
            step(actor, op);
            continue;
        }
        struct heap_block **slot = &actor->slots[fuzz_below(actor->in, actor->count)];
        *slot = atomic_exchange(&cells[op % CELLS], *slot);
    }
    return NULL;
}

static void burst(struct fuzz_input *in)
{
    struct fuzz_input parts[BURST];
    struct actor actors[BURST];
    pthread_t threads[BURST];
    unsigned begun = 0;
    size_t length = (size_t)fuzz_byte(in) * 4;
    for (unsigned i = 0; i < CELLS; i++)
        atomic_store(&cells[i], slots[BURST * BURST_SLOTS + i]);
    for (unsigned i = 0; i < BURST; i++) {
        size_t left = fuzz_left(in), mine = left < length ? left : length;
        parts[i] = (struct fuzz_input){in->at, in->at + mine, 0};
        in->at += mine;
        actors[i] = (struct actor){&parts[i], slots + i * BURST_SLOTS, BURST_SLOTS};
        begun += begun == i && pthread_create(&threads[i], NULL, run_burst, &actors[i]) == 0;
    }
    for (unsigned i = 0; i < begun; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < BURST; i++)
        in->operations += i < begun ? parts[i].operations : 0;
    for (unsigned i = 0; i < CELLS; i++)
        slots[BURST * BURST_SLOTS + i] = atomic_load(&cells[i]);
}

static void interpret(struct actor *actor);

static void *work(void *given)
{
    self = (unsigned)(uintptr_t)given;
    struct worker *me = &workers[self];
    sem_wait(&me->wake);
    while (!me->ends) {
        interpret(&everything);
        if (!me->ends) { /* At the end of the input, the first thread continues. */
            sem_post(&workers[0].wake);
            sem_wait(&me->wake);
        }
    }
    return NULL;
}

static void switch_to(unsigned other)
{
    struct worker *worker = &workers[other];
    if (other == self || in_child)
        return;
    if (!worker->alive) {
        sem_init(&worker->wake, 0, 0);
        worker->ends = false;
        worker->alive = pthread_create(&worker->thread, NULL, work, (void *)(uintptr_t)other) == 0;
        if (!worker->alive)
            return;
    }
    sem_post(&worker->wake);
    sem_wait(&workers[self].wake);
}

static void end_worker(unsigned other)
{
    struct worker *worker = &workers[other];
    if (other == self || other == 0 || !worker->alive || in_child)
        return;
    worker->ends = true;
    sem_post(&worker->wake);
    pthread_join(worker->thread, NULL);
    worker->alive = false;
}

static void put_all(unsigned way)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (blocks[i].p != NULL)
            heap_block_put(&blocks[i], way + i);
}

static void run_child(struct fuzz_input *in)
{
    unsigned gone = 0;
    for (unsigned i = 0; i < THREADS; i++)
        gone += workers[i].alive && i != self;
    in_child = true;
    alarm(CHILD_SECONDS);
    world_in_child(gone);
    for (unsigned i = 0; i < SLOTS; i++)
        if (blocks[i].p != NULL)
            heap_block_check(&blocks[i]);
    struct fuzz_input rest = {in->at, in->at + (fuzz_left(in) < 256 ? fuzz_left(in) : 256), 0};
    struct actor actor = {&rest, slots, SLOTS};
    interpret(&actor);
    world_heal();
    world_check();
    put_all(0);
    world_check();
    fuzz_count(rest.operations);
    _exit(0);
}

static void fork_here(struct fuzz_input *in)
{
    int status = -1;
    if (in_child)
        return;
    pid_t child = fork();
    if (child == 0)
        run_child(in);
    FUZZ_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "(the forked child: 0x%x)",
               (unsigned)status);
}

/* Makes one of the steps that take long, and that are therefore rare. */
static void seldom(struct fuzz_input *in)
{
    uint8_t kind = fuzz_byte(in);
    if (kind < 12)
        fork_here(in);
    else if (kind < 36 && !in_child)
        burst(in);
    else if (kind < 80)
        world_check();
    else if (kind < 128)
        world_report(kind);
    else
        heap_refuse_absurd(fuzz_byte(in));
}

static void control(struct actor *actor, uint8_t op)
{
    struct fuzz_input *in = actor->in;
    uint8_t with = fuzz_byte(in);
    switch (op - CONTROLS_FROM) {
    case 0:
    case 1: switch_to(with % THREADS); break;
    case 2:
    case 3:
    case 4: many(actor, false); break;
    case 5:
    case 6:
    case 7: many(actor, true); break;
    case 8:
    case 9: world_pass_ms(with % 16 == 0 ? with * 40 : with % 32); break;
    case 10:
        if (with < 8)
            (void)heap_trim((size_t)with * 65536);
        break;
    case 11: with < 24 ? end_worker(with % THREADS) : world_heal(); break;
    case 12: with < 32 ? world_refuse(fuzz_byte(in)) : world_heal(); break;
    case 13: world_heal(); break;
    default:
        if (with < 24)
            seldom(in);
        break;
    }
}

static void interpret(struct actor *actor)
{
    while (!workers[self].ends && fuzz_next(actor->in)) {
        uint8_t op = fuzz_byte(actor->in);
        if (op < CONTROLS_FROM)
            step(actor, op);
        else
            control(actor, op);
    }
}

void fuzz_heap(struct fuzz_input *in)
{
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i] = &blocks[i];
    everything.in = in;
    shadow_begin();
    world_begin(in);
    workers[0].alive = true;
    sem_init(&workers[0].wake, 0, 0);
    interpret(&everything);
    for (unsigned i = 1; i < THREADS; i++)
        end_worker(i);
    world_heal();
    world_check();
    put_all(2);
    world_check();
    (void)heap_trim(0);
    world_check();
}
