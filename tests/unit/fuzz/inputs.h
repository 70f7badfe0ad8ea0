/* Inputs: makes inputs at random and by changes of earlier ones; keeps those that reached something new. */
#ifndef TEST_FUZZ_INPUTS_H
#define TEST_FUZZ_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "support/rng.h"

struct inputs {
    struct rng rng;
    size_t largest; /* bytes of an input */
    unsigned count; /* kept */
    uint8_t **bytes;
    size_t *sizes;
};

void inputs_begin(struct inputs *inputs, uint64_t seed, size_t largest);
/* Writes the next input, of up to `largest` bytes; returns its size. */
size_t inputs_next(struct inputs *inputs, uint8_t *bytes);
/* Keeps an input to change later; one of the others goes where there are too many. */
void inputs_keep(struct inputs *inputs, const uint8_t *bytes, size_t size);

#endif
