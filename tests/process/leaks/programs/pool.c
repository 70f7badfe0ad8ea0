/* This pool of buffers grows to its bound in the first rounds, and then reuses its buffers. One path bypasses the pool and leaks its buffer. */
#include "run.h"

enum { POOL = 400, BUFFER = 2048 };

static void *pool[POOL];
static unsigned pooled;
static void *volatile used;

static __attribute__((noinline)) void *pool_buffer(unsigned round)
{
    if (pooled < POOL)
        pool[pooled++] = malloc(BUFFER);
    return pool[round % pooled];
}

static __attribute__((noinline)) void *own_buffer(void) { return malloc(BUFFER); /* LEAK */ }

int main(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 4; i++)
            used = pool_buffer(4 * round + i);
        used = own_buffer();
        memset(used, 'b', BUFFER);
        work(10, 700);
        end_round();
    }
}
