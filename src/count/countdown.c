/* Draws the gap to the next sample from an exponential distribution, and computes how many bytes a sample stands for. */
#include "count/countdown.h"
#include "os/os.h"

enum { SERIES_TERMS = 12, HALVINGS = 8 };

/* Returns the natural logarithm of x >= 1. Does not call log() of the C library, because HAKMEM does not link libm. */
static double logarithm(double x)
{
    static const double log_of_2 = 0.693147180559945309;
    unsigned doublings = 0;
    for (; x > 1.5; x /= 2)
        doublings++;
    double ratio = (x - 1) / (x + 1), power = ratio, sum = 0;
    for (unsigned term = 1; term < 2 * SERIES_TERMS; term += 2, power *= ratio * ratio)
        sum += power / term;
    return 2 * sum + doublings * log_of_2;
}

/* Returns 1 - exp(-x), without a loss of precision for small x. Computes the result for y, a small fraction of x, by a power series. Then doubles y
 * until it is x, by the formula 1 - e^-2y = (1 - e^-y) (2 - (1 - e^-y)). */
static double saturation(double x)
{
    double part = x / (1 << HALVINGS), term = part, sum = 0;
    for (unsigned n = 2; n <= SERIES_TERMS; n++) {
        sum += term;
        term *= -part / n;
    }
    for (unsigned doubling = 0; doubling < HALVINGS; doubling++)
        sum *= 2 - sum;
    return sum;
}

/* Returns a random gap of -ln(u) * mean bytes, with u uniform in (0, 1]. Computes u by Sebastiano Vigna's splitmix64, which works with any seed. */
static int64_t gap(struct hk_countdown *countdown, uint64_t mean)
{
    uint64_t x = countdown->random += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    double u = (double)(((x ^ (x >> 31)) >> 11) + 1) / (double)(1ull << 53);
    return (int64_t)(logarithm(1 / u) * (double)mean);
}

HK_COLD unsigned hk_countdown_ends(struct hk_countdown *countdown, uint64_t bytes, uint64_t mean, unsigned most)
{
    unsigned ends = 0;
    /* hk_countdown_runs_out() may have counted down from the first gap before this function begins it. */
    if (countdown->random == 0) {
        countdown->random = (uintptr_t)countdown ^ hk_os.clock_ns();
        countdown->left += gap(countdown, mean);
    }
    for (countdown->left -= (int64_t)bytes; countdown->left < 0 && ends < most; ends++)
        countdown->left += gap(countdown, mean);
    if (countdown->left < 0)
        countdown->left = gap(countdown, mean);
    return ends;
}

uint64_t hk_countdown_weight(size_t size, uint64_t mean)
{
    double ratio = (double)size / (double)mean;
    return ratio > 64 ? size : (uint64_t)((double)size / saturation(ratio) + 0.5);
}
