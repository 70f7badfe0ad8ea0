/* Tests the reader of unwind tables. Rules that were written as instructions must be read back. If the bytes are changed, any rules or none may
 * be read, but no byte beyond the end. */
#include <stdlib.h>

#include "unit/fuzz/fuzz.h"
#include "prof/unwind.h"
#include "support/made_table.h"

enum { MOST_INSTRUCTIONS = 200 };

static struct made_table made;

static void set(struct hk_rules *model, unsigned place, enum hk_rule_kind kind, int64_t value)
{
    model->kinds[place] = (uint8_t)kind;
    model->values[place] = (int32_t)value;
}

/* Writes an instruction about a register, and sets its rule in the model. */
static void draw_register(struct fuzz_input *in, struct hk_rules *model, unsigned shape)
{
    static const unsigned instructions[] = {0x05, 0x14, 0x11, 0x15, 0x09, 0x07, 0x08};
    unsigned kind = shape % 7, place = fuzz_byte(in) % HK_REGS;
    int64_t value = kind >= 5   ? 0
                    : kind == 4 ? fuzz_byte(in) % 64
                    : kind >= 2 ? (int16_t)fuzz_bytes(in, 2)
                                : (int64_t)fuzz_bytes(in, 2);
    made_put(&made, 1, instructions[kind]);
    made_unsigned(&made, HK_REG_FIRST + place);
    if (kind == 2 || kind == 3)
        made_signed(&made, value);
    else if (kind < 5)
        made_unsigned(&made, (uint64_t)value);
    if (kind < 4)
        set(model, place, kind % 2 == 0 ? HK_RULE_AT : HK_RULE_IS, value * -8);
    else
        set(model, place, kind == 4 ? HK_RULE_REGISTER : kind == 5 ? HK_RULE_UNDEFINED : HK_RULE_SAME, value);
}

static void draw_cfa(struct fuzz_input *in, struct hk_rules *model, unsigned shape)
{
    int32_t value = (int32_t)fuzz_bytes(in, 2);
    model->cfa_kind = HK_RULE_IS;
    if (shape % 2 == 0) {
        model->cfa_register = fuzz_byte(in) % 128;
        made_put(&made, 1, 0x0c);
        made_unsigned(&made, model->cfa_register);
    } else {
        made_put(&made, 1, 0x0e);
    }
    model->cfa_value = value;
    made_unsigned(&made, (uint64_t)value);
}

/* Writes instructions. Stores the rules that are in force at the code offset `wanted` in the model. */
static void draw_program(struct fuzz_input *in, struct hk_rules *model, uint64_t wanted)
{
    struct hk_rules now = *model, kept;
    bool has_kept = false;
    uint64_t at = 0;
    for (unsigned i = 0; i < MOST_INSTRUCTIONS && fuzz_next(in) && fuzz_left(in) > 32; i++) {
        uint8_t shape = fuzz_byte(in);
        if (shape < 100)
            draw_register(in, &now, shape);
        else if (shape < 150)
            draw_cfa(in, &now, shape);
        else if (shape < 200) {
            made_put(&made, 1, 0x40 | (shape & 63));
            at += shape & 63;
        } else if (shape < 210) {
            uint64_t step = fuzz_bytes(in, 2);
            made_put(&made, 1, 3);
            made_put(&made, 2, step);
            at += step;
        } else if (!has_kept) {
            made_put(&made, 1, 0x0a);
            kept = now;
            has_kept = true;
        } else {
            made_put(&made, 1, 0x0b);
            now = kept;
            has_kept = false;
        }
        if (at <= wanted)
            *model = now;
    }
}

static void change(struct fuzz_input *in)
{
    for (unsigned times = fuzz_byte(in) % 16; times > 0; times--)
        made.bytes[fuzz_below(in, made.used)] = fuzz_byte(in);
}

/* Reads a copy of the exact size, so that a sanitizer detects a read beyond its end. */
static bool find_cut(struct hk_rules *rules, size_t size, uint64_t wanted)
{
    unsigned char *bytes = malloc(size);
    memcpy(bytes, made.bytes, size);
    struct hk_code code = {0, 0, bytes, bytes, bytes + size};
    bool found = hk_unwind_find(rules, &code, (uintptr_t)bytes + MADE_FUNCTION_AT + wanted);
    if (found && rules->cfa_kind == HK_RULE_IS_EXPRESSION)
        (void)hk_unwind_expression(&code, rules->cfa_value);
    free(bytes);
    return found;
}

void fuzz_unwind(struct fuzz_input *in)
{
    struct hk_rules model = {.cfa_kind = HK_RULE_IS, .cfa_register = 7, .cfa_value = 8}, rules;
    uint64_t wanted = fuzz_below(in, MADE_FUNCTION_BYTES);
    bool changed = fuzz_byte(in) % 2 == 1;
    size_t cut = fuzz_bytes(in, 2);
    made_usual(&made);
    made_put(&made, 3, 0x08070c);
    made_function(&made, 1, 4);
    draw_program(in, &model, wanted);
    (void)made_end(&made);
    if (changed)
        change(in);
    bool found = find_cut(&rules, changed ? 1 + cut % made.used : made.used, wanted);
    if (changed)
        return;
    FUZZ_CHECK(found && rules.cfa_register == model.cfa_register && rules.cfa_value == model.cfa_value);
    FUZZ_CHECK(memcmp(rules.kinds, model.kinds, sizeof model.kinds) == 0 &&
               memcmp(rules.values, model.values, sizeof model.values) == 0);
}
