/* Made table: builds an unwind table that has one function. Tests of the reader (prof/unwind.h) use the table, which is as a linker writes it.
 *
 *   The order of calls is: made_begin(), numbers of the CIE's program, made_function(), numbers of the FDE's program, made_end(). */
#ifndef TEST_SUPPORT_MADE_TABLE_H
#define TEST_SUPPORT_MADE_TABLE_H

#include <stdint.h>
#include <string.h>

#include "os/os.h"
#include "os/registers.h"

enum { MADE_ROOM = 4096, MADE_HEAD = 20, MADE_FUNCTION_AT = 0x10000, MADE_FUNCTION_BYTES = 0x8000 };

struct made_table {
    unsigned char bytes[MADE_ROOM];
    size_t used, entry, common;
};

static inline void made_put(struct made_table *made, unsigned count, uint64_t number)
{
    for (unsigned i = 0; i < count && made->used < MADE_ROOM; i++)
        made->bytes[made->used++] = (unsigned char)(number >> 8 * i);
}

static inline void made_unsigned(struct made_table *made, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        made_put(made, 1, number | 128);
    made_put(made, 1, number);
}

static inline void made_signed(struct made_table *made, int64_t number)
{
    for (; number < -64 || number >= 64; number >>= 7)
        made_put(made, 1, (uint64_t)number | 128);
    made_put(made, 1, (uint64_t)number & 127);
}

static inline void made_number_at(struct made_table *made, size_t at, uint64_t number)
{
    uint32_t word = (uint32_t)number;
    memcpy(made->bytes + at, &word, sizeof word);
}

/* Ends an entry by writing its length, which is at its start. */
static inline void made_close(struct made_table *made)
{
    made_number_at(made, made->entry, made->used - made->entry - 4);
}

/* Writes the CIE. `numbers` follow the length of the augmentation, if the CIE has one. */
static inline void made_begin(struct made_table *made, unsigned version, const char *letters,
                              const unsigned char *numbers, size_t count)
{
    memset(made, 0, sizeof *made);
    made_put(made, 4, 0x3b031b01);
    made_put(made, 4, MADE_HEAD - 4);
    made_put(made, 4, 1);
    made_put(made, 4, MADE_FUNCTION_AT);
    made_put(made, 4, 0);
    made->entry = made->common = made->used;
    made_put(made, 4, 0);
    made_put(made, 4, 0);
    made_put(made, 1, version);
    for (size_t i = 0; i <= strlen(letters); i++)
        made_put(made, 1, (unsigned char)letters[i]);
    made_unsigned(made, 1);
    made_signed(made, -8);
    made_unsigned(made, HK_REG_FIRST + HK_REG_LINK);
    if (letters[0] == 'z')
        made_unsigned(made, count);
    for (size_t i = 0; i < count; i++)
        made_put(made, 1, numbers[i]);
}

static inline void made_function(struct made_table *made, int augmented, unsigned size_of_address)
{
    made_close(made);
    made->entry = made->used;
    made_number_at(made, 16, made->used);
    made_put(made, 4, 0);
    made_put(made, 4, made->used - made->common);
    made_put(made, size_of_address, 0);
    made_put(made, size_of_address, MADE_FUNCTION_BYTES);
    if (augmented)
        made_unsigned(made, 0);
}

static inline struct hk_code made_end(struct made_table *made)
{
    made_close(made);
    return (struct hk_code){0, 0, made->bytes, made->bytes, made->bytes + made->used};
}

static inline uintptr_t made_address(const struct made_table *made, size_t offset)
{
    return (uintptr_t)made->bytes + MADE_FUNCTION_AT + offset;
}

/* Begins a table as gcc writes it: "zR", with relative addresses of four bytes. */
static inline void made_usual(struct made_table *made) { made_begin(made, 1, "zR", (const unsigned char *)"\x1b", 1); }

#endif
