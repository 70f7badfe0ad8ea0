/* Usage: test_crashes HOW
 * Allocates a little and then ends in the given way. Prints what the debug ring must show: "last ADDRESS" with the block that was allocated last, and
 * in some modes "address ADDRESS" with the address of the fault. The modes are:
 *   wait       ends by itself at the end of standard input; it must survive SIGUSR2 before that
 *   double     frees a block twice
 *   fault      writes to an unmapped address; `fault_stack` uses up the stack and handles the fault on an alternate stack
 *   divide     divides by zero
 *   abort      calls abort()
 *   sent       sends SIGSEGV to itself
 *   own        has its own handler for SIGSEGV, which exits with status 42
 *   threads    several threads fault at the same time */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <malloc.h>

enum { OWN_STATUS = 42, THREADS = 4, BLOCKS = 20, SIZE = 4321, END_OF_STACK = 1 /* which never comes */ };

static void *volatile last;

static void use_heap(void)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc((size_t)(i + 1) * 24);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    last = malloc(SIZE);
}

static void show(void)
{
    static char text[64];
    (void)write(STDOUT_FILENO, text, (size_t)snprintf(text, sizeof text, "last %p\n", last));
}

static void wait_for_signal(void)
{
    char byte;
    (void)write(STDOUT_FILENO, "ready\n", 6);
    (void)read(STDIN_FILENO, &byte, 1); /* returns at the end of standard input, which comes after the signal */
    (void)write(STDOUT_FILENO, "went on\n", 8);
}

static void twice(void)
{
    free(last);
    free(last);
    for (int i = 0; i < 1000; i++)
        free(malloc(SIZE)); /* fills the bin, because HAKMEM finds the mistake when a full bin overflows */
    malloc_trim(0);
}

static void fault(void) { *(volatile int *)(uintptr_t)64 = 1; }

static int deeper(volatile char *above)
{
    volatile char room[4096];
    room[0] = *above;
    return room[0] == END_OF_STACK ? 0 : deeper(room) + room[0];
}

static void use_up_stack(void)
{
    static char other[65536];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    char start = 0;
    sigaltstack(&stack, NULL);
    deeper(&start);
}

static void divide(void)
{
    volatile int one = 1, zero = 0;
    last = (void *)(uintptr_t)(one / zero);
}

static void sent(void) { kill(getpid(), SIGSEGV); }

static void leave(int number)
{
    (void)number;
    _exit(OWN_STATUS);
}

static void own(void)
{
    signal(SIGSEGV, leave);
    fault();
}

static pthread_barrier_t together;

static void *fault_in_thread(void *unused)
{
    use_heap();
    pthread_barrier_wait(&together);
    fault();
    return unused;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, fault_in_thread, NULL) != 0)
            _exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*end)(void);
    } ways[] = {{"wait", wait_for_signal}, {"double", twice}, {"fault", fault}, {"fault_stack", use_up_stack},
                {"divide", divide},        {"abort", abort},  {"sent", sent},   {"own", own},
                {"threads", threads}};
    use_heap();
    show();
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            ways[i].end();
    return 0;
}
