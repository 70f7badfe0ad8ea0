/* A preload for runs that are counted: at each look the clock is a microsecond later. What time decides (giving memory back, learning)
 * comes after the same call in every run, however slow the tool is under which it runs. One that stands still would have
 * programs that wait for a while wait for ever, and divide by none that has gone. */
#include <stdatomic.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now);

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static atomic_long looks;
    long us = atomic_fetch_add(&looks, 1);
    (void)clock;
    *now = (struct timespec){1000 + us / 1000000, us % 1000000 * 1000};
    return 0;
}
