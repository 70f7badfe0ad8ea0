/* Usage: signals  (linked statically with HAKMEM's sources, for each processor)
 * Tests that HAKMEM's sigaction() works like the kernel's. It returns the mask, the flags and the handler that were set. A handler returns. The mask
 * blocks signals while the handler runs. Nothing is written beyond the end of the caller's structures. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK = 0x5a, MARKS = 64 };

static int failures;
static volatile sig_atomic_t handled, blocked_late;

static void must(int line, int good, const char *what)
{
    if (!good) {
        failures++;
        fprintf(stderr, "signals.c:%d: %s\n", line, what);
    }
}
#define MUST(condition) must(__LINE__, (condition), #condition)

/* The mask blocks SIGUSR2 while this handler runs, so the handler of SIGUSR2 runs after it. */
static void on_first(int number, siginfo_t *info, void *context)
{
    (void)context;
    handled += info->si_signo == number;
    raise(SIGUSR2);
    blocked_late = handled == 1;
}

static void on_second(int number) { handled += number == SIGUSR2; }

static int marks_hold(const unsigned char *marks)
{
    for (int i = 0; i < MARKS; i++)
        if (marks[i] != MARK)
            return 0;
    return 1;
}

static int same_set(const sigset_t *one, const sigset_t *other)
{
    for (int number = 1; number < 64; number++)
        if (sigismember(one, number) != sigismember(other, number))
            return 0;
    return 1;
}

static void each_signal_comes_back(void)
{
    struct {
        unsigned char before[MARKS];
        struct sigaction action;
        unsigned char behind[MARKS];
    } read_back;
    struct sigaction given = {.sa_sigaction = on_first, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    memset(&read_back, MARK, sizeof read_back);
    sigemptyset(&given.sa_mask);
    sigaddset(&given.sa_mask, SIGUSR2);
    sigaddset(&given.sa_mask, SIGTERM);
    sigaddset(&given.sa_mask, 50);
    sigaddset(&given.sa_mask, 63);
    MUST(sigaction(SIGTERM, &given, NULL) == 0 && sigaction(SIGUSR1, &given, NULL) == 0);
    MUST(sigaction(SIGTERM, NULL, &read_back.action) == 0);
    MUST(read_back.action.sa_sigaction == on_first && same_set(&read_back.action.sa_mask, &given.sa_mask));
    MUST((read_back.action.sa_flags & given.sa_flags) == given.sa_flags);
    MUST(marks_hold(read_back.before) && marks_hold(read_back.behind));
}

static void handlers_return(void)
{
    MUST(signal(SIGUSR2, on_second) == SIG_DFL);
    raise(SIGUSR1);
    MUST(handled == 2 && blocked_late);
}

int main(void)
{
    void *block = malloc(100);
    each_signal_comes_back();
    handlers_return();
    free(block);
    if (failures == 0)
        puts("signals: all right");
    return failures != 0;
}
