/* This preload is for runs under a tool that counts instructions. Each call of a clock returns a microsecond more than the last call. So work that
 * depends on time (purges, learning, a hash seeded by time()) is done at the same call in each run, however slow the tool is. The clock must
 * advance, because programs could otherwise wait forever or divide by an elapsed time of 0. */
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now);
time_t time(time_t *now);

static struct timespec next_microsecond(void)
{
    static atomic_long looks;
    long us = atomic_fetch_add(&looks, 1);
    return (struct timespec){1000 + us / 1000000, us % 1000000 * 1000};
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = next_microsecond();
    return 0;
}

time_t time(time_t *now)
{
    time_t seconds = next_microsecond().tv_sec;
    if (now != NULL)
        *now = seconds;
    return seconds;
}
