/* Usage: test_sampled_mistakes HOW
 * Makes one mistake with a sampled block of SIZE bytes, or faults in another way. Prints "bad ADDRESS", the address of the mistake. The stacks of the
 * report must show the names of this file's functions. */
#include "support/core_page.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 100, OWN_STATUS = 42, RACERS = 8, CROWD = 300, ROUNDS = 400, RECOVERIES = 1000 };
#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noinline, noclone))
#endif

static char *volatile block;

/* Returns whether the block is sampled. Only a sampled block has a usable size equal to the requested size. */
static int is_sampled(void *p) { return malloc_usable_size(p) == SIZE; }

KEPT static char *make_block(void)
{
    for (;;) {
        char *made = malloc(SIZE);
        if (made == NULL)
            _exit(4);
        if (is_sampled(made))
            return made;
    }
}

KEPT static char *say(char *address)
{
    char text[64];
    (void)!write(STDOUT_FILENO, text, (size_t)snprintf(text, sizeof text, "bad %p\n", (void *)address));
    return address;
}

KEPT static void touch(char *address)
{
    *(volatile char *)address = 1;
    __asm__ volatile(""); /* prevents a tail call */
}

KEPT static void drop_block(void)
{
    free(block);
    __asm__ volatile("");
}

static void behind(void) { touch(say(block + SIZE + (-(uintptr_t)(block + SIZE) % core_page()))); }
static void before(void) { touch(say(block - (uintptr_t)block % core_page() - 1)); }

static void after(void)
{
    drop_block();
    touch(say(block + 5));
}

static void twice(void)
{
    drop_block();
    say(block);
    drop_block();
}

static void inside(void)
{
    block = say(block + 16);
    drop_block();
}

static void resize_freed(void)
{
    drop_block();
    block = realloc(say(block), 300);
}

static void beside(void)
{
    char *address = (uintptr_t)block % core_page() == 0 ? block + SIZE : block - 1;
    *address ^= 1;
    say(address);
    drop_block();
}

static void *drop_in_thread(void *unused)
{
    drop_block();
    return unused;
}

static void run_thread(void *(*run)(void *), void *argument, size_t stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (stack != 0)
        pthread_attr_setstacksize(&attributes, stack);
    if (pthread_create(&thread, &attributes, run, argument) != 0)
        _exit(9);
    pthread_join(thread, NULL);
}

static void after_thread(void)
{
    run_thread(drop_in_thread, NULL, 0);
    touch(say(block));
}

static void *make_and_touch(void *unused)
{
    block = make_block();
    after();
    return unused;
}

/* Uses many sampled blocks, so that slots are reused. A reused block of calloc must be zero again. */
static void come_round(void)
{
    for (int sampled = 0; sampled < 400;) {
        char *made = calloc(1, SIZE);
        for (int i = 0; i < SIZE; i++)
            if (made[i] != 0)
                _exit(5);
        memset(made, 0x55, SIZE);
        if (is_sampled(made)) {
            free(made);
            sampled++;
        }
    }
    after();
}

static void small_stack(void) { run_thread(make_and_touch, NULL, (size_t)sysconf(_SC_THREAD_STACK_MIN)); }

static void small_signal_stack(void)
{
    static char room[8192]; /* the former SIGSTKSZ */
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&stack, NULL);
    after();
}

static pthread_barrier_t together;

static void *touch_together(void *unused)
{
    pthread_barrier_wait(&together);
    touch(block);
    return unused;
}

static void race(void)
{
    pthread_t threads[RACERS];
    pthread_barrier_init(&together, NULL, RACERS);
    drop_block();
    say(block);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, touch_together, NULL);
    pthread_join(threads[0], NULL);
}

static void own_handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    char text[64];
    (void)!write(STDOUT_FILENO, text, (size_t)snprintf(text, sizeof text, "own %d %p\n", number, info->si_addr));
    _exit(OWN_STATUS);
}

static void handle(int flags)
{
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO | flags};
    sigaction(SIGSEGV, &action, NULL);
}

/* Like the Java machine, the program passes unknown faults to the handler that was installed before its own handler. */
static struct sigaction found;
static void chain(int number, siginfo_t *info, void *context)
{
    if (found.sa_handler == SIG_DFL)
        own_handler(number, info, context);
    found.sa_sigaction(number, info, context);
}

static void handle_and_chain(void)
{
    struct sigaction action = {.sa_sigaction = chain, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, &found);
}

static sigjmp_buf way_back;
static volatile int recovered;

static void recover(int number)
{
    (void)number;
    recovered++;
    siglongjmp(way_back, 1);
}

static void recover_often(void)
{
    while (recovered < RECOVERIES)
        if (sigsetjmp(way_back, 1) == 0)
            touch((char *)(uintptr_t)64);
    _exit(recovered == RECOVERIES ? 0 : 1);
}

/* Installs a handler for a short time, like a program that tests whether an address can be read. */
static void probe(bool by_signal)
{
    struct sigaction action = {.sa_handler = recover}, former;
    if (by_signal)
        former.sa_handler = signal(SIGSEGV, recover);
    else
        sigaction(SIGSEGV, &action, &former);
    if (sigsetjmp(way_back, 1) == 0)
        touch((char *)(uintptr_t)64);
    if (by_signal)
        signal(SIGSEGV, former.sa_handler);
    else
        sigaction(SIGSEGV, &former, NULL);
}

static void probed(void)
{
    probe(false);
    after();
}

static void probed_by_signal(void)
{
    probe(true);
    after();
}

static volatile int resets;
static void count_reset(int number)
{
    (void)number;
    resets++;
    (void)!write(STDOUT_FILENO, "reset\n", 6);
}

static void elsewhere(void) { touch((char *)(uintptr_t)64); }

/* Sends SIGSEGV to the program itself. The report must not blame a block, because no block is used wrongly. */
static void sent(void)
{
    kill(getpid(), SIGSEGV);
    _exit(3);
}

static void still_there(void)
{
    kill(getpid(), SIGSEGV);
    _exit(0);
}

static void in_child(void)
{
    pid_t child = fork();
    if (child == 0)
        after();
    int status = 0;
    waitpid(child, &status, 0);
    block[0] = 1; /* the parent's block is still valid in the child */
    free(block);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 0 : 1);
}

/* Makes no mistake: many threads end, blocks are passed between threads, and some threads fork. */
static _Atomic(char *) handed_over[CROWD];
static _Atomic int sampled_blocks;

static void *use_heap(void *number)
{
    for (int i = 0; i < ROUNDS; i++) {
        char *mine = i % 3 == 0 ? calloc(1, SIZE) : malloc(SIZE);
        sampled_blocks += is_sampled(mine);
        if (i % 3 == 0 && mine[SIZE / 2] != 0)
            _exit(5);
        memset(mine, 7, SIZE);
        if (i % 5 == 0)
            mine = realloc(mine, SIZE + 100);
        free(__atomic_exchange_n((char **)&handed_over[((intptr_t)number + i) % CROWD], mine, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void use_heap_and_leave(void)
{
    use_heap(NULL);
    _exit(0);
}

static void crowd(void)
{
    static pthread_t threads[CROWD];
    free(block);
    /* If the threads run late, the blocks that pthread_create() allocates for them take all slots. */
    for (int i = 0; i < ROUNDS; i++) {
        char *mine = malloc(SIZE);
        sampled_blocks += is_sampled(mine);
        free(mine);
    }
    for (intptr_t i = 0; i < CROWD; i++)
        if (pthread_create(&threads[i], NULL, use_heap, (void *)i) != 0)
            _exit(9);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            use_heap_and_leave();
        int status = -1;
        waitpid(child, &status, 0);
        if (status != 0)
            _exit(6);
    }
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    printf("sampled %d\n", sampled_blocks);
    exit(sampled_blocks > 100 ? 0 : 7);
}

static void scarce(void)
{
    struct rlimit limit = {(size_t)64 << 20, (size_t)64 << 20};
    setrlimit(RLIMIT_AS, &limit);
    free(block);
    int made = 0;
    for (char **newest = NULL, **next; (next = malloc(SIZE)) != NULL; newest = next, made++)
        *next = (char *)newest;
    exit(made > 100000 ? 0 : 8);
}

static void stderr_elsewhere(void)
{
    close(STDERR_FILENO);
    after();
}

struct way {
    const char *name;
    void (*end)(void);
    int handler; /* says if the handler is installed before or after the first sample */
};
enum { NO_HANDLER, OWN_BEFORE, OWN_BEHIND, CHAINS, RECOVERS, RESETS, IGNORES, LOCKS };

int main(int argc, char **argv)
{
    static const struct way ways[] = {{"behind", behind, 0},
                                      {"before", before, 0},
                                      {"after", after, 0},
                                      {"twice", twice, 0},
                                      {"inside", inside, 0},
                                      {"resize_freed", resize_freed, 0},
                                      {"beside", beside, 0},
                                      {"after_thread", after_thread, 0},
                                      {"small_stack", small_stack, 0},
                                      {"small_signal_stack", small_signal_stack, 0},
                                      {"race", race, 0},
                                      {"in_child", in_child, 0},
                                      {"come_round", come_round, 0},
                                      {"locked", come_round, LOCKS},
                                      {"own", after, OWN_BEFORE},
                                      {"own_elsewhere", elsewhere, OWN_BEFORE},
                                      {"own_behind", after, OWN_BEHIND},
                                      {"chained", elsewhere, CHAINS},
                                      {"probed", probed, 0},
                                      {"probed_by_signal", probed_by_signal, 0},
                                      {"probed_own", probed, OWN_BEFORE},
                                      {"recover", recover_often, RECOVERS},
                                      {"reset", elsewhere, RESETS},
                                      {"elsewhere", elsewhere, 0},
                                      {"sent", sent, 0},
                                      {"sent_ignored", still_there, IGNORES},
                                      {"stderr_elsewhere", stderr_elsewhere, 0},
                                      {"crowd", crowd, 0},
                                      {"scarce", scarce, 0}};
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(argv[1], ways[i].name) != 0)
            continue;
        switch (ways[i].handler) {
        case OWN_BEFORE: handle(0); break;
        case RECOVERS: signal(SIGSEGV, recover); break;
        case RESETS:
            sigaction(SIGSEGV, &(struct sigaction){.sa_handler = count_reset, .sa_flags = (int)SA_RESETHAND}, NULL);
            break;
        case LOCKS: (void)mlockall(MCL_CURRENT | MCL_FUTURE); break;
        case IGNORES: signal(SIGSEGV, SIG_IGN); break;
        default: break;
        }
        block = make_block();
        if (ways[i].handler == OWN_BEHIND)
            handle(0);
        if (ways[i].handler == CHAINS)
            handle_and_chain();
        ways[i].end();
        return 0;
    }
    return 2;
}
