/* Inputs: makes random inputs, and changed copies of earlier inputs. It keeps the inputs that reached something new. */
#ifndef TEST_FUZZ_INPUTS_H
#define TEST_FUZZ_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "support/rng.h"

struct inputs {
    struct rng rng;
    size_t largest; /* most bytes of an input */
    unsigned count; /* number of kept inputs */
    uint8_t **bytes;
    size_t *sizes;
};

void inputs_begin(struct inputs *inputs, uint64_t seed, size_t largest);
/* Writes the next input, of at most `largest` bytes. Returns its size. */
size_t inputs_next(struct inputs *inputs, uint8_t *bytes);
/* Keeps an input so that it can be changed later. If there are too many inputs, another input is dropped. */
void inputs_keep(struct inputs *inputs, const uint8_t *bytes, size_t size);

#endif
