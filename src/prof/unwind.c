/* Finds a function in an unwind table, and executes the function's call frame instructions up to a code address. */
#include "prof/unwind.h"

/* Linkers write a table of version 1. The table has a relative address of .eh_frame, a count, and pairs of addresses relative to the table. */
enum { TABLE_HEAD = 12, TABLE_PAIR = 8, FORMS = 0x3b031b01, LONGEST_ENTRY = 1 << 24 };
enum { FORM_SIZE = 0x0f, FORM_ALIGNED = 0x50 };

/* These instructions are in the upper two bits of a byte. If these bits are 0, the lower six bits hold one of the instructions below. */
enum { SET_ADVANCE = 1, SET_OFFSET, SET_RESTORE };
enum { NOP, ADVANCE_1 = 2, ADVANCE_2, ADVANCE_4, OFFSET, RESTORE, UNDEFINED, SAME, REGISTER, REMEMBER, RECALL, CFA };
enum { CFA_REGISTER = CFA + 1, CFA_OFFSET, CFA_EXPRESSION, EXPRESSION, OFFSET_SIGNED, CFA_SIGNED, CFA_OFFSET_SIGNED };
enum { IS_OFFSET = CFA_OFFSET_SIGNED + 1, IS_OFFSET_SIGNED, IS_EXPRESSION, SIGN_ADDRESS = 0x2d, ARGUMENTS };

struct entry {
    struct hk_unwind_reader program;
    uint64_t code_unit;
    int64_t data_unit;
    uint8_t form;
    bool augmented, of_signal;
};

struct run {
    struct hk_rules *rules;
    const struct entry *entry;
    const struct hk_code *code;
    uint64_t at, wanted; /* offsets in the function */
    struct hk_rules remembered;
    bool has_remembered;
};

static HK_COLD unsigned read_too_far(struct hk_unwind_reader *reader)
{
    reader->failed = true;
    reader->at = reader->end;
    return 0;
}

HK_INLINE unsigned take_byte(struct hk_unwind_reader *reader)
{
    return HK_LIKELY(reader->at < reader->end) ? *reader->at++ : read_too_far(reader);
}

uint64_t hk_unwind_take(struct hk_unwind_reader *reader, unsigned bytes)
{
    uint64_t number = 0;
    if ((size_t)(reader->end - reader->at) < bytes)
        return read_too_far(reader);
    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)*reader->at++ << 8 * i;
    return number;
}

/* Moves the reader beyond the next bytes, and returns a reader of these bytes. */
static struct hk_unwind_reader take_part(struct hk_unwind_reader *reader, uint64_t bytes)
{
    const unsigned char *from = reader->at;
    if ((size_t)(reader->end - from) < bytes)
        (void)read_too_far(reader);
    else
        reader->at += bytes;
    return (struct hk_unwind_reader){from, reader->at, reader->failed};
}

/* Reads a number in LEB128, and returns it without extending its sign. Sets `bits` to the number of bits that the encoding holds. */
HK_INLINE uint64_t take_leb(struct hk_unwind_reader *reader, unsigned *bits)
{
    uint64_t number = 0, byte;
    *bits = 0;
    do {
        byte = take_byte(reader);
        if (*bits < 64)
            number |= (byte & 127) << *bits;
        *bits += 7;
    } while (byte >= 128);
    return number;
}

uint64_t hk_unwind_unsigned(struct hk_unwind_reader *reader) { return take_leb(reader, &(unsigned){0}); }

int64_t hk_unwind_signed(struct hk_unwind_reader *reader)
{
    unsigned bits;
    uint64_t number = take_leb(reader, &bits);
    return bits < 64 && (number >> (bits - 1) & 1) != 0 ? (int64_t)(number | UINT64_MAX << bits) : (int64_t)number;
}

static struct hk_unwind_reader reader_at(const struct hk_code *code, uintptr_t address)
{
    bool inside = address - (uintptr_t)code->from < (size_t)(code->to - code->from);
    return (struct hk_unwind_reader){inside ? (const unsigned char *)address : code->to, code->to, !inside};
}

struct hk_unwind_reader hk_unwind_expression(const struct hk_code *code, int32_t value)
{
    struct hk_unwind_reader reader = reader_at(code, (uintptr_t)code->from + (uint32_t)value);
    return take_part(&reader, hk_unwind_unsigned(&reader));
}

static int32_t number_at(const unsigned char *at)
{
    int32_t number;
    __builtin_memcpy(&number, at, sizeof number);
    return number;
}

/* Returns the table's entry of the function that contains the address, or NULL. Sets `start` to the address of the function. */
static const unsigned char *search_table(const struct hk_code *code, uintptr_t address, uintptr_t *start)
{
    size_t room = code->table != NULL ? (size_t)(code->to - code->table) : 0, low = 0, high;
    if (room < TABLE_HEAD + TABLE_PAIR || number_at(code->table) != FORMS)
        return NULL;
    high = (uint32_t)number_at(code->table + 8);
    if (high > (room - TABLE_HEAD) / TABLE_PAIR)
        return NULL;
    const unsigned char *pairs = code->table + TABLE_HEAD;
    int64_t wanted = (int64_t)(address - (uintptr_t)code->table);
    while (low < high) { /* functions before `low` begin at or below the address, those from `high` on begin above it */
        size_t middle = low + (high - low) / 2;
        if (number_at(pairs + middle * TABLE_PAIR) <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    pairs += (low - 1) * TABLE_PAIR;
    *start = (uintptr_t)code->table + (uintptr_t)(intptr_t)number_at(pairs);
    return code->table + number_at(pairs + 4);
}

static struct hk_unwind_reader reader_of_entry(const struct hk_code *code, uintptr_t address)
{
    struct hk_unwind_reader reader = reader_at(code, address);
    uint64_t length = hk_unwind_take(&reader, 4);
    return take_part(&reader, length - 1 < LONGEST_ENTRY ? length : UINT64_MAX);
}

/* Returns the number of bytes that a number in this form has, or 0 if compilers do not write this form. */
static unsigned form_size(uint8_t form)
{
    static const uint8_t form_sizes[FORM_SIZE + 1] = {[0] = 8, [2] = 2, [3] = 4, [4] = 8, [10] = 2, [11] = 4, [12] = 8};
    return form == FORM_ALIGNED ? 0 : form_sizes[form & FORM_SIZE];
}

/* Reads the numbers of a CIE's augmentation. The letters after the z say which numbers the augmentation has. */
static void read_augmentation(struct entry *entry, const char *letters)
{
    struct hk_unwind_reader *reader = &entry->program, numbers = take_part(reader, hk_unwind_unsigned(reader));
    for (; *letters != 0; letters++)
        if (*letters == 'R')
            entry->form = (uint8_t)take_byte(&numbers);
        else if (*letters == 'P')
            (void)take_part(&numbers, form_size((uint8_t)take_byte(&numbers)));
        else if (*letters == 'L')
            (void)take_byte(&numbers);
        else if (*letters == 'S')
            entry->of_signal = true;
}

/* Reads a CIE, which holds the instructions that many functions share. Returns false if the CIE has a form that compilers do not write. */
static bool read_common(struct entry *entry, const struct hk_code *code, uintptr_t address)
{
    char letters[8];
    unsigned count = 0;
    *entry = (struct entry){.program = reader_of_entry(code, address)};
    struct hk_unwind_reader *reader = &entry->program;
    bool is_common = hk_unwind_take(reader, 4) == 0;
    uint64_t version = take_byte(reader);
    while (count < sizeof letters - 1 && (letters[count] = (char)take_byte(reader)) != 0)
        count++;
    entry->code_unit = hk_unwind_unsigned(reader);
    entry->data_unit = hk_unwind_signed(reader);
    uint64_t link = version == 1 ? take_byte(reader) : hk_unwind_unsigned(reader);
    entry->augmented = letters[0] == 'z';
    if (!is_common || link != (uint64_t)HK_REG_FIRST + HK_REG_LINK || (version != 1 && version != 3) ||
        letters[count] != 0 || (count > 0 && !entry->augmented))
        return false;
    if (entry->augmented)
        read_augmentation(entry, letters + 1);
    return !reader->failed;
}

static void set_rule(struct run *run, uint64_t number, enum hk_rule_kind kind, int64_t value)
{
    uint64_t place = number - HK_REG_FIRST;
    if (place >= HK_REGS)
        return;
    run->rules->kinds[place] = (uint8_t)kind;
    run->rules->values[place] = (int32_t)value;
}

static void set_cfa(struct run *run, uint64_t number, int64_t value)
{
    run->rules->cfa_kind = HK_RULE_IS;
    run->rules->cfa_register = (uint8_t)number;
    run->rules->cfa_value = (int32_t)value;
}

static int32_t skip_expression(struct run *run, struct hk_unwind_reader *reader)
{
    int32_t place = (int32_t)(reader->at - run->code->from);
    (void)take_part(reader, hk_unwind_unsigned(reader));
    return place;
}

/* Executes an instruction that sets the rule of a register. The number of the register is the instruction's first operand. */
static void run_register(struct run *run, struct hk_unwind_reader *reader, unsigned instruction)
{
    uint64_t number = hk_unwind_unsigned(reader);
    int64_t unit = run->entry->data_unit;
    switch (instruction) {
    case OFFSET: set_rule(run, number, HK_RULE_AT, (int64_t)hk_unwind_unsigned(reader) * unit); return;
    case OFFSET_SIGNED: set_rule(run, number, HK_RULE_AT, hk_unwind_signed(reader) * unit); return;
    case IS_OFFSET: set_rule(run, number, HK_RULE_IS, (int64_t)hk_unwind_unsigned(reader) * unit); return;
    case IS_OFFSET_SIGNED: set_rule(run, number, HK_RULE_IS, hk_unwind_signed(reader) * unit); return;
    case REGISTER: set_rule(run, number, HK_RULE_REGISTER, (int64_t)hk_unwind_unsigned(reader)); return;
    case EXPRESSION: set_rule(run, number, HK_RULE_AT_EXPRESSION, skip_expression(run, reader)); return;
    case IS_EXPRESSION: set_rule(run, number, HK_RULE_IS_EXPRESSION, skip_expression(run, reader)); return;
    case UNDEFINED: set_rule(run, number, HK_RULE_UNDEFINED, 0); return;
    case RESTORE: /* restores the CIE's rule, which is SAME for every register that compilers name in RESTORE */
    case SAME: set_rule(run, number, HK_RULE_SAME, 0); return;
    default: reader->failed = true;
    }
}

/* Executes an instruction that changes the CFA or the place in the function. Passes all other instructions to run_register(). */
static void run_instruction(struct run *run, struct hk_unwind_reader *reader, unsigned instruction)
{
    struct hk_rules *rules = run->rules;
    int64_t unit = run->entry->data_unit;
    uint64_t number;
    switch (instruction) {
    case NOP:
    case SIGN_ADDRESS: return;
    case ARGUMENTS: (void)hk_unwind_unsigned(reader); return;
    case ADVANCE_1: run->at += take_byte(reader) * run->entry->code_unit; return;
    case ADVANCE_2: run->at += hk_unwind_take(reader, 2) * run->entry->code_unit; return;
    case ADVANCE_4: run->at += hk_unwind_take(reader, 4) * run->entry->code_unit; return;
    case REMEMBER:
        reader->failed |= run->has_remembered; /* compilers do not nest REMEMBER */
        run->remembered = *rules;
        run->has_remembered = true;
        return;
    case RECALL:
        reader->failed |= !run->has_remembered;
        *rules = run->remembered;
        run->has_remembered = false;
        return;
    case CFA:
    case CFA_SIGNED:
        number = hk_unwind_unsigned(reader);
        set_cfa(run, number,
                instruction == CFA ? (int64_t)hk_unwind_unsigned(reader) : hk_unwind_signed(reader) * unit);
        return;
    case CFA_REGISTER: set_cfa(run, hk_unwind_unsigned(reader), rules->cfa_value); return;
    case CFA_OFFSET: set_cfa(run, rules->cfa_register, (int64_t)hk_unwind_unsigned(reader)); return;
    case CFA_OFFSET_SIGNED: set_cfa(run, rules->cfa_register, hk_unwind_signed(reader) * unit); return;
    case CFA_EXPRESSION:
        rules->cfa_kind = HK_RULE_IS_EXPRESSION;
        rules->cfa_value = skip_expression(run, reader);
        return;
    default: run_register(run, reader, instruction);
    }
}

/* Executes all call frame instructions, except those at the end that apply only to places above the wanted place. Returns false on an error. */
static bool run_program(struct run *run, struct hk_unwind_reader reader)
{
    while (reader.at < reader.end && !reader.failed && run->at <= run->wanted) {
        unsigned instruction = take_byte(&reader), number = instruction & 63;
        if (instruction >> 6 == SET_ADVANCE)
            run->at += number * run->entry->code_unit;
        else if (instruction >> 6 == SET_OFFSET)
            set_rule(run, number, HK_RULE_AT, (int64_t)hk_unwind_unsigned(&reader) * run->entry->data_unit);
        else if (instruction >> 6 == SET_RESTORE)
            set_rule(run, number, HK_RULE_SAME, 0);
        else
            run_instruction(run, &reader, instruction);
    }
    return !reader.failed;
}

bool hk_unwind_find(struct hk_rules *rules, const struct hk_code *code, uintptr_t address)
{
    struct entry common;
    uintptr_t start = 0;
    const unsigned char *found = search_table(code, address, &start);
    struct hk_unwind_reader reader = reader_of_entry(code, (uintptr_t)found);
    uintptr_t link = (uintptr_t)reader.at;
    link -= hk_unwind_take(&reader, 4);
    if (found == NULL || reader.failed || !read_common(&common, code, link))
        return false;
    unsigned size = form_size(common.form);
    (void)take_part(&reader, size);
    if (size == 0 || address - start >= hk_unwind_take(&reader, size))
        return false;
    if (common.augmented)
        (void)take_part(&reader, hk_unwind_unsigned(&reader));
    *rules = (struct hk_rules){.of_signal = common.of_signal};
    struct run run = {.rules = rules, .entry = &common, .code = code, .wanted = address - start};
    return run_program(&run, common.program) && run_program(&run, reader) && rules->cfa_kind != HK_RULE_SAME;
}
