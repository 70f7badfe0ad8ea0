/* Fuzz: the frame of the fuzz targets. A target reads a string of bytes as a series of operations on one part of HAKMEM, and does the
 * same with a model: something plain that needs no allocator. Where the two differ, the process ends by abort().
 *
 *   bytes -> fuzz_below() ... -> operation on the core, and on the model -> FUZZ_CHECK
 *
 * targets.def lists the targets. A FORK target runs in a forked child for each input: it finds the core not started, and leaves no trace.
 * A PURE one leaves no state in the core. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is left of the bytes of an input; zeros follow its end. */
struct fuzz_input {
    const uint8_t *at, *end;
    uint64_t operations; /* so far */
};

enum fuzz_kind { FUZZ_PURE, FUZZ_FORK };

struct fuzz_target {
    const char *name;
    enum fuzz_kind kind;
    void (*run)(struct fuzz_input *in);
};
extern const struct fuzz_target fuzz_targets[];
extern const size_t fuzz_target_count;

#define FUZZ_TARGET(kind, name, oracle) void fuzz_##name(struct fuzz_input *in);
#include "unit/fuzz/targets.def"
#undef FUZZ_TARGET

#define FUZZ_CHECK(condition, ...)                                                                                     \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0))                                                                         \
            fuzz_fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                                                \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Runs a target on an input; does not return where a check fails. */
void fuzz_run(const struct fuzz_target *target, const uint8_t *bytes, size_t size);
const struct fuzz_target *fuzz_target_named(const char *name);
/* Operations of all processes that fuzz_begin() comes before. */
uint64_t fuzz_operations(void);
void fuzz_begin(void);
/* For a forked process that ends by _exit(). */
void fuzz_count(uint64_t operations);

static inline size_t fuzz_left(const struct fuzz_input *in) { return (size_t)(in->end - in->at); }

/* The head of a target's loop. */
static inline bool fuzz_next(struct fuzz_input *in)
{
    in->operations++;
    return in->at < in->end;
}

static inline uint8_t fuzz_byte(struct fuzz_input *in) { return in->at < in->end ? *in->at++ : 0; }

static inline uint64_t fuzz_bytes(struct fuzz_input *in, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)fuzz_byte(in) << (8 * i);
    return value;
}

/* 0 .. bound - 1, by as few bytes as the bound needs. */
static inline uint64_t fuzz_below(struct fuzz_input *in, uint64_t bound)
{
    unsigned count = bound <= 1 ? 0 : bound <= 1 << 8 ? 1 : bound <= 1 << 16 ? 2 : bound <= (uint64_t)1 << 32 ? 4 : 8;
    return count == 0 ? 0 : fuzz_bytes(in, count) % bound;
}

/* Any word, often one of few bits, or one off a power of two. */
static inline uint64_t fuzz_word(struct fuzz_input *in)
{
    uint8_t kind = fuzz_byte(in);
    switch (kind % 4) {
    case 0: return fuzz_bytes(in, 8);
    case 1: return fuzz_byte(in);
    case 2: return ((uint64_t)1 << kind / 4) + fuzz_byte(in) % 5 - 2;
    default: return fuzz_bytes(in, 4);
    }
}

/* The next bytes as a text of at most room - 1 characters, up to a zero. */
size_t fuzz_text(struct fuzz_input *in, char *text, size_t room);
/* A text made of pieces from a list, which ends with NULL, and of other characters. */
size_t fuzz_pieces(struct fuzz_input *in, const char *const *pieces, char *text, size_t room);

#endif
