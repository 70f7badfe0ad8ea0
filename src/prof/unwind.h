/* Unwind: reads from a module's unwind table (.eh_frame_hdr and .eh_frame) how a function's frame is left.
 *
 *   code address --table--> FDE, CIE --their instructions--> rules: the caller's registers by those of the frame
 *
 * Invariant  nothing outside [from, to) of the module is read, whatever the bytes are.
 * Threads    any, a signal handler too; pure functions, about 500 bytes of stack. */
#ifndef HK_UNWIND_H
#define HK_UNWIND_H

#include "base/base.h"
#include "os/os.h"
#include "os/registers.h"

/* The rule of a register of the caller. The register is at CFA + value (AT), is CFA + value (IS), is in register number `value` (REGISTER), or is
 * given by an expression, directly or by its address. CFA is the frame's address. The value of an expression is its place in [from, to). */
enum hk_rule_kind {
    HK_RULE_SAME,
    HK_RULE_UNDEFINED,
    HK_RULE_AT,
    HK_RULE_IS,
    HK_RULE_REGISTER,
    HK_RULE_AT_EXPRESSION,
    HK_RULE_IS_EXPRESSION
};

struct hk_rules {
    uint8_t kinds[HK_REGS];
    uint8_t cfa_kind; /* IS: register + value; IS_EXPRESSION: value */
    uint8_t cfa_register;
    bool of_signal; /* a signal handler returns to this code */
    int32_t cfa_value;
    int32_t values[HK_REGS];
};

/* Finds the rules. Returns false if the table does not contain the address, or has a form that compilers do not write. */
bool hk_unwind_find(struct hk_rules *rules, const struct hk_code *code, uintptr_t address);

/* Reads numbers from the bytes of a DWARF expression. A read beyond the end returns 0, and sets `failed`. */
struct hk_unwind_reader {
    const unsigned char *at, *end;
    bool failed;
};
uint64_t hk_unwind_take(struct hk_unwind_reader *reader, unsigned bytes);
uint64_t hk_unwind_unsigned(struct hk_unwind_reader *reader);
int64_t hk_unwind_signed(struct hk_unwind_reader *reader);
/* Returns a reader of a rule's expression. */
struct hk_unwind_reader hk_unwind_expression(const struct hk_code *code, int32_t value);

#endif
