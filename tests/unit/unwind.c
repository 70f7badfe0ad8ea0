/* Tests that each instruction that compilers write sets the right rule, and that other bytes set no rule. No byte may be read beyond the end of
 * the table. */
#include "unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#include "prof/unwind.h"
#include "support/made_table.h"

enum { R = HK_REG_FIRST, LINK = HK_REG_FIRST + HK_REG_LINK, PAGE = 4096 };

static struct made_table made;
static struct hk_rules rules;

static bool find(size_t offset)
{
    struct hk_code code = made_end(&made);
    return hk_unwind_find(&rules, &code, made_address(&made, offset));
}

/* Begins a table with CFA = stack pointer + 8 and the return address below the CFA. The caller adds the instructions of the function. */
static void begin(void)
{
    made_usual(&made);
    made_put(&made, 1, 0x0c);
    made_unsigned(&made, HK_REG_FIRST + HK_REG_STACK);
    made_unsigned(&made, 8);
    made_put(&made, 1, 0x05);
    made_unsigned(&made, LINK);
    made_unsigned(&made, 1);
    made_function(&made, 1, 4);
}

static void expect(unsigned place, enum hk_rule_kind kind, int32_t value)
{
    assert_int_equal(rules.kinds[place], kind);
    assert_int_equal(rules.values[place], value);
}

static void expect_cfa(unsigned number, int32_t value)
{
    assert_int_equal(rules.cfa_kind, HK_RULE_IS);
    assert_int_equal(rules.cfa_register, number);
    assert_int_equal(rules.cfa_value, value);
}

/* Writes an instruction, a register and a number. */
static void put(unsigned instruction, uint64_t number, int64_t value, bool is_signed)
{
    made_put(&made, 1, instruction);
    made_unsigned(&made, number);
    if (is_signed)
        made_signed(&made, value);
    else
        made_unsigned(&made, (uint64_t)value);
}

UNIT_TEST(common_rules)
{
    begin();
    assert_true(find(0));
    expect_cfa(HK_REG_FIRST + HK_REG_STACK, 8);
    expect(HK_REG_LINK, HK_RULE_AT, -8);
    expect(2, HK_RULE_SAME, 0);
    assert_false(rules.of_signal);
    assert_true(find(MADE_FUNCTION_BYTES - 1));
    assert_false(find(MADE_FUNCTION_BYTES));
    assert_false(find((size_t)-1));
}

UNIT_TEST(places_in_the_function)
{
    begin();
    static const unsigned steps[][3] = {{0x41, 0, 1}, {2, 1, 200}, {3, 2, 1000}, {4, 4, 3000}};
    size_t at = 0;
    for (unsigned i = 0; i < 4; i++) {
        made_put(&made, 1, steps[i][0]);
        made_put(&made, steps[i][1], steps[i][2]);
        made_put(&made, 1, 0x0e);
        made_unsigned(&made, 16 * (i + 1));
    }
    for (unsigned i = 0; i < 4; i++) {
        at += steps[i][2];
        assert_true(find(at - 1));
        expect_cfa(HK_REG_FIRST + HK_REG_STACK, i == 0 ? 8 : 16 * (int32_t)i);
        assert_true(find(at));
        expect_cfa(HK_REG_FIRST + HK_REG_STACK, 16 * (int32_t)(i + 1));
    }
}

UNIT_TEST(rules_of_registers)
{
    begin();
    put(0x80 | (R + 1), 3, 0, false); /* 3 is the offset. The next byte is a no-operation. */
    put(0x11, R + 2, -4, true);
    put(0x14, R + 3, 2, false);
    put(0x15, R + 4, -5, true);
    put(0x09, R + 5, R + 6, false);
    made_put(&made, 1, 0x07);
    made_unsigned(&made, R + 6);
    put(0x05, R + 7, 9, false);
    put(0x05, R + 8, 9, false);
    put(0x05, R + 9, 9, false);
    made_put(&made, 1, 0x08);
    made_unsigned(&made, R + 7);
    made_put(&made, 1, 0x06);
    made_unsigned(&made, R + 8);
    made_put(&made, 1, 0xc0 | (R + 9));
    put(0x05, 1000, 9, false); /* Rules of register 1000 are ignored. */
    put(0x2e, 500, 0, false);
    made_put(&made, 1, 0x2d);
    assert_true(find(0));
    expect(1, HK_RULE_AT, -24);
    expect(2, HK_RULE_AT, 32);
    expect(3, HK_RULE_IS, -16);
    expect(4, HK_RULE_IS, 40);
    expect(5, HK_RULE_REGISTER, R + 6);
    expect(6, HK_RULE_UNDEFINED, 0);
    for (unsigned i = 7; i < 10; i++)
        expect(i, HK_RULE_SAME, 0);
}

UNIT_TEST(rules_of_the_cfa)
{
    begin();
    put(0x12, R + 3, -3, true);
    assert_true(find(0));
    expect_cfa(R + 3, 24);
    made_put(&made, 1, 0x0d);
    made_unsigned(&made, R + 4);
    assert_true(find(0));
    expect_cfa(R + 4, 24);
    made_put(&made, 1, 0x13);
    made_signed(&made, -9);
    assert_true(find(0));
    expect_cfa(R + 4, 72);
}

UNIT_TEST(remembered)
{
    begin();
    made_put(&made, 1, 0x0a);
    put(0x0c, R + 4, 100, false);
    assert_true(find(0));
    expect_cfa(R + 4, 100);
    made_put(&made, 1, 0x0b);
    assert_true(find(0));
    expect_cfa(HK_REG_FIRST + HK_REG_STACK, 8);
    made_put(&made, 1, 0x0b);
    assert_false(find(0)); /* Nothing was saved that 0x0b could restore. */
    begin();
    made_put(&made, 2, 0x0a0a);
    assert_false(find(0));
}

UNIT_TEST(expressions)
{
    static const unsigned char bytes[] = {0x77, 8, 0x06};
    begin();
    size_t at[3];
    for (unsigned i = 0; i < 3; i++) {
        made_put(&made, 1, i == 0 ? 0x0f : i == 1 ? 0x10 : 0x16);
        if (i > 0)
            made_unsigned(&made, R + i);
        at[i] = made.used;
        made_unsigned(&made, sizeof bytes);
        for (size_t b = 0; b < sizeof bytes; b++)
            made_put(&made, 1, bytes[b]);
    }
    assert_true(find(0));
    assert_int_equal(rules.cfa_kind, HK_RULE_IS_EXPRESSION);
    assert_int_equal(rules.cfa_value, at[0]);
    expect(1, HK_RULE_AT_EXPRESSION, (int32_t)at[1]);
    expect(2, HK_RULE_IS_EXPRESSION, (int32_t)at[2]);
    struct hk_code code = made_end(&made);
    struct hk_unwind_reader reader = hk_unwind_expression(&code, rules.cfa_value);
    assert_int_equal(reader.end - reader.at, sizeof bytes);
    assert_memory_equal(reader.at, bytes, sizeof bytes);
    code.to = code.from + at[0] + 2;
    assert_true(hk_unwind_expression(&code, rules.cfa_value).failed);
    assert_true(hk_unwind_expression(&code, -1).failed);
}

/* Reads a table with this version, these letters in its CIE, and this form of addresses. */
static bool find_with(unsigned version, const char *letters, const char *numbers, size_t count, unsigned address)
{
    made_begin(&made, version, letters, (const unsigned char *)numbers, count);
    put(0x0c, HK_REG_FIRST + HK_REG_STACK, 8, false);
    made_function(&made, letters[0] == 'z', address);
    return find(0);
}

UNIT_TEST(forms)
{
    assert_true(find_with(1, "", "", 0, 8));
    assert_true(find_with(3, "zR", "\x1b", 1, 4));
    assert_true(find_with(1, "zPLR", "\x1b\1\2\3\4\x1b\x1b", 7, 4));
    assert_true(find_with(1, "zPLR", "\0\1\2\3\4\5\6\7\x08\x1b\x1c", 11, 8));
    assert_true(find_with(1, "zRB", "\x1b", 1, 4));
    assert_true(find_with(1, "zR", "\x12", 1, 2));
    assert_false(rules.of_signal);
    assert_true(find_with(1, "zRS", "\x1b", 1, 4));
    assert_true(rules.of_signal);
    assert_false(find_with(4, "zR", "\x1b", 1, 4));
    assert_false(find_with(1, "eh", "", 0, 8));
    assert_false(find_with(1, "zRRRRRRRRR", "\x1b", 1, 4));
    assert_false(find_with(1, "zR", "\x50", 1, 4));
    assert_false(find_with(1, "zR", "\x01", 1, 4));
}

UNIT_TEST(other_bytes)
{
    begin();
    made_put(&made, 1, 0x3f);
    assert_false(find(0));
    begin();
    made.bytes[3] = 0x1b; /* the form of the table */
    assert_false(find(0));
    begin();
    made_number_at(&made, 8, 1000); /* the count */
    assert_false(find(0));
    begin();
    made_number_at(&made, 8, 0);
    assert_false(find(0));
    begin();
    made_number_at(&made, 16, 0x7fffffff); /* the offset of the FDE */
    assert_false(find(0));
    begin();
    made_number_at(&made, made.entry + 4, 0x1000); /* the offset of the CIE */
    assert_false(find(0));
    begin();
    made_number_at(&made, made.common + 4, 1); /* There is no CIE. */
    assert_false(find(0));
    made_usual(&made);
    made_function(&made, 1, 4);
    assert_false(find(0)); /* There is no CFA. */
}

/* The last byte of the table lies before a page that cannot be read. The table is cut off at each byte. */
UNIT_TEST(cut_off)
{
    begin();
    put(0x0c, R + 4, 100000, false);
    put(0x0f, 2, 0x0806, false);
    struct hk_code whole = made_end(&made);
    size_t size = (size_t)(whole.to - whole.from);
    unsigned char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    for (size_t cut = 0; cut <= size; cut++) {
        unsigned char *start = pages + PAGE - cut;
        memcpy(start, made.bytes, cut);
        struct hk_code code = {0, 0, start, start, start + cut};
        assert_int_equal(hk_unwind_find(&rules, &code, (uintptr_t)start + MADE_FUNCTION_AT), cut == size);
    }
}

UNIT_TEST(numbers)
{
    unsigned char bytes[16];
    memset(bytes, 0xff, sizeof bytes);
    struct hk_unwind_reader reader = {bytes, bytes + sizeof bytes, false};
    (void)hk_unwind_unsigned(&reader);
    assert_true(reader.failed && reader.at == reader.end);
    assert_int_equal(hk_unwind_take(&reader, 1), 0);
    bytes[0] = 0x7f;
    reader = (struct hk_unwind_reader){bytes, bytes + 9, false};
    assert_int_equal(hk_unwind_signed(&reader), -1);
    assert_true(hk_unwind_take(&reader, 8) == UINT64_MAX && !reader.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_rules),
        cmocka_unit_test(places_in_the_function),
        cmocka_unit_test(rules_of_registers),
        cmocka_unit_test(rules_of_the_cfa),
        cmocka_unit_test(remembered),
        cmocka_unit_test(expressions),
        cmocka_unit_test(forms),
        cmocka_unit_test(other_bytes),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
