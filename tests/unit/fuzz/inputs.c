#include "unit/fuzz/inputs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_KEPT = 1024, MOST_CHANGES = 5, SNIPPET = 64 };

static void *pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

/* Begins without inputs. The memory for inputs is mapped because HAKMEM may be the malloc of the process, and would count memory from malloc as
 * the program's. */
void inputs_begin(struct inputs *inputs, uint64_t seed, size_t largest)
{
    *inputs = (struct inputs){.rng = rng_seeded(seed), .largest = largest};
    inputs->bytes = pages(MOST_KEPT * sizeof *inputs->bytes);
    inputs->sizes = pages(MOST_KEPT * sizeof *inputs->sizes);
    uint8_t *all = pages(MOST_KEPT * largest);
    for (size_t i = 0; i < MOST_KEPT; i++)
        inputs->bytes[i] = all + i * largest;
}

void inputs_keep(struct inputs *inputs, const uint8_t *bytes, size_t size)
{
    unsigned at = inputs->count < MOST_KEPT ? inputs->count++ : rng_below(&inputs->rng, MOST_KEPT);
    inputs->sizes[at] = size < inputs->largest ? size : inputs->largest;
    memcpy(inputs->bytes[at], bytes, inputs->sizes[at]);
}

static size_t below(struct inputs *inputs, size_t bound) { return rng_below(&inputs->rng, (uint32_t)bound); }

static void fill(struct inputs *inputs, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = rng_next(&inputs->rng);
        memcpy(bytes + i, &word, size - i < 8 ? size - i : 8);
    }
}

/* Writes a new input and returns its size. The input has arbitrary bytes, a few byte values in any order, or a repeated snippet with changes. */
static size_t fresh(struct inputs *inputs, uint8_t *bytes)
{
    uint8_t snippet[SNIPPET];
    size_t size = 1 + below(inputs, below(inputs, 4) == 0 ? 64 : inputs->largest), kind = below(inputs, 4);
    fill(inputs, bytes, size);
    if (kind > 1)
        return size;
    fill(inputs, snippet, sizeof snippet);
    size_t length = 1 + below(inputs, SNIPPET);
    for (size_t i = 0; i < size; i++)
        if (bytes[i] >= 16)
            bytes[i] = snippet[kind == 0 ? bytes[i] % length : i % length];
    return size;
}

static size_t cut(struct inputs *inputs, uint8_t *bytes, size_t size)
{
    size_t at = below(inputs, size), count = 1 + below(inputs, size - at);
    memmove(bytes + at, bytes + at + count, size - at - count);
    return size - count;
}

/* Inserts bytes of a kept input, or random bytes, into an input. Returns the input's new size. */
static size_t insert(struct inputs *inputs, uint8_t *bytes, size_t size)
{
    unsigned from = rng_below(&inputs->rng, inputs->count);
    size_t room = inputs->largest - size, length = inputs->sizes[from];
    if (room == 0 || length == 0)
        return size;
    size_t at = below(inputs, size + 1), start = below(inputs, length), count = 1 + below(inputs, length - start);
    count = count < room ? count : room;
    memmove(bytes + at + count, bytes + at, size - at);
    if (below(inputs, 3) == 0)
        fill(inputs, bytes + at, count);
    else
        memcpy(bytes + at, inputs->bytes[from] + start, count);
    return size + count;
}

static void replace(struct inputs *inputs, uint8_t *bytes, size_t size)
{
    size_t at = below(inputs, size);
    switch (below(inputs, 3)) {
    case 0: bytes[at] ^= (uint8_t)(1 << below(inputs, 8)); break;
    case 1: bytes[at] = (uint8_t)rng_next(&inputs->rng); break;
    default: bytes[at] = (uint8_t)(bytes[at] + below(inputs, 9) - 4); break;
    }
}

size_t inputs_next(struct inputs *inputs, uint8_t *bytes)
{
    if (inputs->count == 0 || below(inputs, 8) == 0)
        return fresh(inputs, bytes);
    unsigned from = rng_below(&inputs->rng, inputs->count);
    size_t size = inputs->sizes[from];
    memcpy(bytes, inputs->bytes[from], size);
    for (size_t changes = 1 + below(inputs, MOST_CHANGES); changes > 0; changes--) {
        size_t kind = below(inputs, 8);
        if (size == 0 || kind < 2)
            size = insert(inputs, bytes, size);
        else if (kind == 2 && size > 1)
            size = cut(inputs, bytes, size);
        else
            replace(inputs, bytes, size);
    }
    return size;
}
