/* Unwind: finds the rules that restore the registers of a function's caller. The rules are in the module's unwind table (.eh_frame_hdr, .eh_frame).
 *
 *   code address --table--> FDE, CIE --their instructions--> rules: each register of the caller, computed from the registers of the function
 *
 * Invariant  The functions read nothing outside [from, to) of the module, even if the table is broken.
 * Threads    Any thread and any signal handler may call the functions. They are pure, and need about 500 bytes of stack. */
#pragma once

#include "base/base.h"
#include "os/os.h"
#include "os/registers.h"

/* Says how to restore a register of the caller. CFA is the caller's stack pointer. An expression begins `value` bytes after hk_code.from. */
enum hk_rule_kind {
    HK_RULE_SAME,          /* the register is unchanged */
    HK_RULE_UNDEFINED,     /* the caller's value is lost */
    HK_RULE_AT,            /* the caller's value is stored at CFA + value */
    HK_RULE_IS,            /* the caller's value is CFA + value */
    HK_RULE_REGISTER,      /* the caller's value is in register number `value` */
    HK_RULE_AT_EXPRESSION, /* an expression computes the address of the caller's value */
    HK_RULE_IS_EXPRESSION, /* an expression computes the caller's value */
};

struct hk_rules {
    uint8_t kinds[HK_REGS];
    uint8_t cfa_kind; /* IS: CFA is cfa_register + cfa_value; IS_EXPRESSION: cfa_value is the expression's offset */
    uint8_t cfa_register;
    bool of_signal; /* the code at the address is the code to which a signal handler returns */
    int32_t cfa_value;
    int32_t values[HK_REGS];
};

/* Finds the rules for a code address. Returns false if the table does not contain the address, or has a form that compilers do not write. */
bool hk_unwind_find(struct hk_rules *rules, const struct hk_code *code, uintptr_t address);

/* Reads numbers from an unwind table, a DWARF expression or a packed stack. A read beyond the end returns 0, and sets `failed`. */
struct hk_unwind_reader {
    const unsigned char *at, *end;
    bool failed;
};
uint64_t hk_unwind_take(struct hk_unwind_reader *reader, unsigned bytes);
uint64_t hk_unwind_unsigned(struct hk_unwind_reader *reader);
int64_t hk_unwind_signed(struct hk_unwind_reader *reader);
struct hk_unwind_reader hk_unwind_expression(const struct hk_code *code, int32_t value);
