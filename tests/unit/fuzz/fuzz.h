/* Fuzz: the frame of the fuzz targets. A target reads a string of bytes as a series of operations. It makes each operation on one part of HAKMEM
 * and on a simple model of this part. If the two then differ, the process ends with abort().
 *
 *   bytes -> fuzz_below() ... -> operation on the core, and on the model -> FUZZ_CHECK
 *
 * targets.def lists the targets. A FORK target runs in a forked child for each input. In the child the core has not started, and an input cannot
 * affect other inputs. A PURE target leaves no state in the core. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Holds the bytes of an input that were not read yet. A read beyond the end returns zeros. */
struct fuzz_input {
    const uint8_t *at, *end;
    uint64_t operations; /* operations so far */
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

/* Runs a target on an input. Does not return if a check fails. */
void fuzz_run(const struct fuzz_target *target, const uint8_t *bytes, size_t size);
const struct fuzz_target *fuzz_target_named(const char *name);
/* Returns the number of operations of all processes that were started after fuzz_begin(). */
uint64_t fuzz_operations(void);
void fuzz_begin(void);
/* Adds operations to the count of all processes. A forked process calls fuzz_count() before it ends with _exit(). */
void fuzz_count(uint64_t operations);

static inline size_t fuzz_left(const struct fuzz_input *in) { return (size_t)(in->end - in->at); }

/* Returns true while the input has unread bytes. A target's loop calls fuzz_next() before each operation. */
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

/* Returns a number from 0 to bound - 1. Reads only as many bytes as the bound needs. */
static inline uint64_t fuzz_below(struct fuzz_input *in, uint64_t bound)
{
    unsigned count = bound <= 1 ? 0 : bound <= 1 << 8 ? 1 : bound <= 1 << 16 ? 2 : bound <= (uint64_t)1 << 32 ? 4 : 8;
    return count == 0 ? 0 : fuzz_bytes(in, count) % bound;
}

/* Returns any 64-bit number. Numbers with few bits, and numbers near a power of two, are frequent. */
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

/* Writes the next bytes as a text of at most room - 1 characters, up to a zero. Returns its length. */
size_t fuzz_text(struct fuzz_input *in, char *text, size_t room);
/* Writes a text that consists of pieces from a list, and of other characters. NULL ends the list. Returns the length of the text. */
size_t fuzz_pieces(struct fuzz_input *in, const char *const *pieces, char *text, size_t room);

#endif
