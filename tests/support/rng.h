/* rng: the generator xorshift64*. The seed alone determines a run. */
#ifndef TEST_SUPPORT_RNG_H
#define TEST_SUPPORT_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline struct rng rng_seeded(uint64_t seed)
{
    /* One splitmix64 step makes neighboring seeds start far apart. In practice the state is then never zero. */
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (struct rng){z ? z : 1};
}

static inline uint64_t rng_next(struct rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545F4914F6CDD1Du;
}

/* Returns a number from 0 to bound - 1. The small bias of the multiplication does not matter here. */
static inline uint32_t rng_below(struct rng *r, uint32_t bound)
{
    return (uint32_t)(((rng_next(r) >> 32) * bound) >> 32);
}

#endif
