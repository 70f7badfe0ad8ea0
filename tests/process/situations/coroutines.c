/* Usage: test_coroutines
 * Tests coroutines that have small stacks from malloc. ucontext switches half of the coroutines, and a few instructions of the program switch the
 * others. Coroutines allocate, switch while they hold blocks, free each other's blocks, continue in another thread, and end. Any thread may free
 * a stack. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { COROUTINES = 400, STEPS = 30, STACK = 24 << 10, GENERATIONS = 4 };

struct coroutine {
    ucontext_t context, *back;
    void *own_stack_pointer, *back_stack_pointer; /* for the switch by hand */
    char *stack;
    size_t number;
    bool by_hand, ended;
};

static struct coroutine coroutine[COROUTINES];
static char *handed_on[COROUTINES]; /* blocks that one coroutine allocates, and the next one checks and frees */
static size_t size_of_handed[COROUTINES];

#if defined(__x86_64__)
enum { BY_HAND = 1 };
/* Saves the callee-saved registers, switches stacks, and restores the registers of the other coroutine. */
void switch_stacks(void **from, void *to);
__asm__(
    ".text\n.globl switch_stacks\n.type switch_stacks,@function\nswitch_stacks:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nretq\n.size switch_stacks,.-switch_stacks\n");
#else
enum { BY_HAND = 0 };
static void switch_stacks(void **from, void *to)
{
    (void)from;
    (void)to;
}
#endif

static _Thread_local struct coroutine *resumed; /* the coroutine that this thread resumed last */

static void leave(struct coroutine *self)
{
    if (self->by_hand) {
        switch_stacks(&self->own_stack_pointer, self->back_stack_pointer);
    } else {
        swapcontext(&self->context, self->back);
    }
}

static void step(struct coroutine *self, size_t round)
{
    size_t n = self->number, size = (n * 131 + round * 977) % 5000 + 1;
    char *mine = round % 10 == 9 ? calloc(1, 200000 + size) : malloc(size);
    CHECK(mine != NULL, "coroutine %zu", n);
    pattern_fill(mine, size, n);
    leave(self);
    CHECK(pattern_holds(mine, size, n), "coroutine %zu, round %zu", n, round);
    size_t other = (n + 1) % COROUTINES;
    CHECK(!handed_on[other] || pattern_holds(handed_on[other], size_of_handed[other], other), "what %zu handed on",
          other);
    free(handed_on[other]);
    handed_on[other] = NULL;
    free(handed_on[n]);
    handed_on[n] = realloc(mine, size + 100);
    size_of_handed[n] = size;
}

static void run(struct coroutine *self)
{
    for (size_t round = 0; round < STEPS; round++) {
        step(self, round);
    }
    self->ended = true;
    leave(self);
    abort(); /* This line runs only if an ended coroutine is resumed, which is a mistake of the test. */
}

static void begin_here(void) { run(resumed); }

static void make(struct coroutine *self, size_t number)
{
    *self = (struct coroutine){.number = number, .by_hand = BY_HAND && number % 2 == 1, .stack = malloc(STACK)};
    CHECK(self->stack != NULL, "a stack");
    if (self->by_hand) {
        void **top = (void **)(void *)(self->stack + STACK);
        void (*entry)(void) = begin_here;
        /* At a function's first instruction the stack pointer must be 8 bytes off a multiple of 16, because the return address was just pushed. */
        top -= 2;
        memcpy(top, &entry, sizeof entry);
        self->own_stack_pointer = memset(top - 6, 0, 6 * sizeof *top);
    } else {
        getcontext(&self->context);
        self->context.uc_stack.ss_sp = self->stack;
        self->context.uc_stack.ss_size = STACK;
        makecontext(&self->context, begin_here, 0);
    }
}

static void resume(struct coroutine *self)
{
    ucontext_t here;
    resumed = self;
    if (self->by_hand) {
        switch_stacks(&self->back_stack_pointer, self->own_stack_pointer);
    } else {
        self->back = &here;
        swapcontext(&here, &self->context);
    }
    if (self->ended) {
        free(self->stack);
        self->stack = NULL;
    }
}

static void *resume_all(void *unused)
{
    for (size_t i = 0; i < COROUTINES; i++) {
        if (!coroutine[i].ended) {
            resume(&coroutine[i]);
        }
    }
    check_thread_done();
    return unused;
}

static void one_generation(int generation)
{
    for (size_t i = 0; i < COROUTINES; i++) {
        make(&coroutine[i], i);
    }
    for (size_t round = 0; round < STEPS + 1; round++) {
        pthread_t other;
        if ((round + (size_t)generation) % 4 == 3) {
            CHECK(pthread_create(&other, NULL, resume_all, NULL) == 0, "thread");
            pthread_join(other, NULL);
        } else {
            resume_all(NULL);
        }
    }
    for (size_t i = 0; i < COROUTINES; i++) {
        CHECK(coroutine[i].ended, "coroutine %zu has not ended", i);
        free(handed_on[i]);
        handed_on[i] = NULL;
    }
}

int main(void)
{
    watchdog_start(60, "coroutines");
    for (int generation = 0; generation < GENERATIONS; generation++) {
        one_generation(generation);
    }
    return check_report("coroutines");
}
