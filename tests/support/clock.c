/* A library to preload that replaces the clock of a program. Time passes only in sleeps, which return at once, and by CLOCK_STEP_MS at each call
 * that reads a clock. So actions that depend on the time follow the same call in each run, and a program that rests for seconds takes no time. 
 * HAKMEM's background thread does not rest by these calls, so it neither advances this clock nor follows it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, SECOND = 1000 * MS, BEGIN_S = 1000 };

static _Atomic long passed_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *step = getenv("CLOCK_STEP_MS");
    long ns = atomic_fetch_add(&passed_ns, step == NULL ? 0 : strtol(step, NULL, 10) * MS);
    (void)clock;
    *now = (struct timespec){BEGIN_S + ns / SECOND, ns % SECOND};
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    atomic_fetch_add(&passed_ns, time->tv_sec * SECOND + time->tv_nsec);
    return 0;
}

/* Rust and Python sleep by this call, which returns the error. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest)
{
    (void)clock;
    (void)rest;
    long ns = time->tv_sec * SECOND + time->tv_nsec, passed = atomic_load(&passed_ns);
    if (flags & TIMER_ABSTIME)
        ns -= (long)BEGIN_S * SECOND;
    while (!atomic_compare_exchange_weak(&passed_ns, &passed,
                                         !(flags & TIMER_ABSTIME) ? passed + ns
                                         : ns > passed            ? ns
                                                                  : passed))
        ;
    return 0;
}

int usleep(useconds_t time)
{
    atomic_fetch_add(&passed_ns, time * 1000L);
    return 0;
}
