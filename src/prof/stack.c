/* Captures call stacks frame by frame, packs them, and keeps the packed stacks in a table. */
#include "prof/stack.h"
#include "prof/unwind.h"
#include "span/meta.h"

enum { OWN_FRAMES = 16, WORD = sizeof(uintptr_t), FRAMES_BELOW = 1 << 20, MOST_OPERANDS = 8, MOST_BYTES = 10 };
enum { KEPT_ROWS = 1024, SLOTS_IN_WORD = 8, MOST_WORDS = 255 };
#define SPREAD 0x9e3779b97f4a7c15u

/* Compilers and the C library write these operations in DWARF expressions. */
enum { DEREF = 0x06, AND = 0x1a, MULTIPLY = 0x1e, PLUS = 0x22, PLUS_CONST, SHIFT_LEFT, NOT_LESS = 0x2a };
enum { LITERAL = 0x30, BASE_REGISTER = 0x70, OPERATIONS = 32 };

struct stack_walk {
    uintptr_t registers[HK_REGS];
    uintptr_t low, high; /* the pages from `low` to `high` are known to be readable */
    struct hk_code code; /* the segment that contains the last frame's code */
    bool interrupted;    /* the code address is that of an interrupted instruction, not a return address */
};

/* Reads a word of the stack. Returns false if the page is not readable. Asks the system before it reads a page, because the frame may be broken. */
__attribute__((no_sanitize("address", "thread"))) static bool load_word(struct stack_walk *walk, uintptr_t address,
                                                                        uintptr_t *word)
{
    if (address % WORD != 0)
        return false;
    if (address - walk->low >= walk->high - walk->low) {
        uintptr_t page = address & -(uintptr_t)HK_PAGE;
        if (!hk_os.readable(address))
            return false;
        walk->low = page == walk->high ? walk->low : page;
        walk->high = page + HK_PAGE;
    }
    *word = *(const uintptr_t *)address;
    return true;
}

static bool register_of(const struct stack_walk *walk, uint64_t number, uintptr_t *value)
{
    uint64_t place = number - HK_REG_FIRST;
    *value = place < HK_REGS ? walk->registers[place] : 0;
    return place < HK_REGS;
}

/* Applies an operation to the top of the operand stack. Returns false if the operation is unknown, or if the word that it reads is not readable. */
static bool operate(struct stack_walk *walk, unsigned operation, struct hk_unwind_reader *reader, uintptr_t *top)
{
    switch (operation) {
    case DEREF: return load_word(walk, *top, top);
    case PLUS_CONST: *top += hk_unwind_unsigned(reader); return true;
    case PLUS: top[-1] += *top; return true;
    case AND: top[-1] &= *top; return true;
    case MULTIPLY: top[-1] *= *top; return true;
    case SHIFT_LEFT: top[-1] = *top < 64 ? top[-1] << *top : 0; return true;
    case NOT_LESS: top[-1] = (intptr_t)top[-1] >= (intptr_t)*top; return true;
    default: return false;
    }
}

/* Evaluates a DWARF expression. `value` is the first operand of the expression, and receives the result. Returns false on an error. */
static bool evaluate(struct stack_walk *walk, struct hk_unwind_reader reader, uintptr_t *value)
{
    uintptr_t operands[MOST_OPERANDS] = {0, *value}, *top = operands + 1;
    while (reader.at < reader.end && !reader.failed) {
        unsigned operation = (unsigned)hk_unwind_take(&reader, 1);
        if (operation >= LITERAL && ++top == operands + MOST_OPERANDS)
            return false;
        if (operation - LITERAL < OPERATIONS)
            *top = operation - LITERAL;
        else if (operation - BASE_REGISTER < OPERATIONS) {
            if (!register_of(walk, operation - BASE_REGISTER, top))
                return false;
            *top += (uintptr_t)hk_unwind_signed(&reader);
        } else if (!operate(walk, operation, &reader, top))
            return false;
        else if (operation != DEREF && operation != PLUS_CONST && --top == operands)
            return false;
    }
    *value = *top;
    return !reader.failed;
}

static bool apply_rule(struct stack_walk *walk, enum hk_rule_kind kind, int32_t value, uintptr_t cfa, uintptr_t *result)
{
    switch (kind) {
    case HK_RULE_AT: return load_word(walk, cfa + (uintptr_t)(intptr_t)value, result);
    case HK_RULE_IS: *result = cfa + (uintptr_t)(intptr_t)value; return true;
    case HK_RULE_REGISTER: return register_of(walk, (uint64_t)value, result);
    case HK_RULE_AT_EXPRESSION:
        return evaluate(walk, hk_unwind_expression(&walk->code, value), &cfa) && load_word(walk, cfa, result);
    case HK_RULE_IS_EXPRESSION: *result = cfa; return evaluate(walk, hk_unwind_expression(&walk->code, value), result);
    default: return true; /* SAME and UNDEFINED change nothing */
    }
}

/* Moves the walk to the caller's frame. Returns false at the end of the stack. */
static bool enter_caller_at(struct stack_walk *walk, uintptr_t cfa, uintptr_t code)
{
    HK_UNSIGNED_CODE(code);
    bool goes_on = code != 0 && (cfa != walk->registers[HK_REG_STACK] || code != walk->registers[HK_REG_CODE]);
    walk->registers[HK_REG_STACK] = cfa;
    walk->registers[HK_REG_CODE] = code;
    walk->interrupted = false;
    return goes_on;
}

static HK_NOINLINE bool step_by_rules(struct stack_walk *walk, const struct hk_rules *rules)
{
    uintptr_t callers[HK_REGS], cfa = 0;
    if ((rules->cfa_kind == HK_RULE_IS && !register_of(walk, rules->cfa_register, &cfa)) ||
        !apply_rule(walk, (enum hk_rule_kind)rules->cfa_kind, rules->cfa_value, cfa, &cfa) ||
        rules->kinds[HK_REG_LINK] == HK_RULE_UNDEFINED)
        return false;
    memcpy(callers, walk->registers, sizeof callers);
    for (unsigned i = 0; i < HK_REGS; i++)
        if (!apply_rule(walk, (enum hk_rule_kind)rules->kinds[i], rules->values[i], cfa, &callers[i]))
            return false;
    uintptr_t stack = walk->registers[HK_REG_STACK], code = walk->registers[HK_REG_CODE];
    memcpy(walk->registers, callers, sizeof callers);
    walk->registers[HK_REG_STACK] = stack;
    walk->registers[HK_REG_CODE] = code;
    return enter_caller_at(walk, cfa, callers[HK_REG_LINK]);
}

/* Caches the rules of a code address in four words, which are enough for most addresses. Each byte of xslots is the distance of a saved register
 * below the CFA, in words. The check word does not match if two threads wrote the row at once, or if another module is now mapped at the address. */
static struct kept_row {
    _Atomic uint64_t xcheck, xcfa, xslots[2];
} kept_rows[KEPT_ROWS] HK_COLD_DATA;

static struct kept_row *row_of(uint64_t key) { return &kept_rows[key >> 32 & (KEPT_ROWS - 1)]; }

static uint64_t check_of(uint64_t key, uint64_t cfa, const uint64_t *slots)
{
    return key ^ ((cfa * SPREAD ^ slots[0]) * SPREAD ^ slots[1]) * SPREAD;
}

static bool pack_rules(const struct hk_rules *rules, uint64_t *slots)
{
    for (unsigned i = 0; i < HK_REGS; i++) {
        unsigned distance = rules->kinds[i] == HK_RULE_AT ? (unsigned)-rules->values[i] : 0;
        if ((rules->kinds[i] != HK_RULE_SAME && distance == 0) || distance % WORD != 0 || distance > MOST_WORDS * WORD)
            return false;
        slots[i / SLOTS_IN_WORD] |= (uint64_t)(distance / WORD) << i % SLOTS_IN_WORD * 8;
    }
    return rules->cfa_kind == HK_RULE_IS && slots[2] == (HK_REG_LINK >= 2 * SLOTS_IN_WORD);
}

static void keep_row(uint64_t key, const struct hk_rules *rules)
{
    uint64_t slots[3] = {0, 0, 0}, cfa = (uint64_t)rules->cfa_register << 32 | (uint32_t)rules->cfa_value;
    struct kept_row *row = row_of(key);
    if (rules->kinds[HK_REG_LINK] == HK_RULE_UNDEFINED)
        cfa = UINT64_MAX; /* no register has this number, so the stack ends at this frame */
    else if (!pack_rules(rules, slots))
        return;
    hk_store(row->xcheck, check_of(key, cfa, slots));
    hk_store(row->xcfa, cfa);
    hk_store(row->xslots[0], slots[0]);
    hk_store(row->xslots[1], slots[1]);
}

static bool find_row(uint64_t key, uint64_t *cfa, uint64_t *slots)
{
    struct kept_row *row = row_of(key);
    *cfa = hk_load(row->xcfa);
    slots[0] = hk_load(row->xslots[0]);
    slots[1] = hk_load(row->xslots[1]);
    return check_of(key, *cfa, slots) == hk_load(row->xcheck);
}

static bool step_by_row(struct stack_walk *walk, uint64_t cfa_rule, const uint64_t *slots)
{
    uintptr_t cfa;
    if (!register_of(walk, cfa_rule >> 32, &cfa))
        return false;
    cfa += (uintptr_t)(intptr_t)(int32_t)cfa_rule;
    for (unsigned half = 0; half < 2; half++)
        for (uint64_t left = slots[half]; left != 0;) {
            unsigned shift = (unsigned)__builtin_ctzll(left) / 8 * 8;
            if (!load_word(walk, cfa - (left >> shift & MOST_WORDS) * WORD,
                           &walk->registers[half * SLOTS_IN_WORD + shift / 8]))
                return false;
            left &= ~((uint64_t)MOST_WORDS << shift);
        }
    uintptr_t code = walk->registers[HK_REG_LINK];
    return (HK_REG_LINK < 2 * SLOTS_IN_WORD || load_word(walk, cfa - WORD, &code)) && enter_caller_at(walk, cfa, code);
}

/* Moves from a signal handler to the code that the signal interrupted. Returns false if the registers cannot be read. */
static bool step_over_signal(struct stack_walk *walk)
{
    static const uint8_t order[HK_REGS] = {HK_SIGNAL_ORDER};
    uintptr_t from = walk->registers[HK_REG_STACK] + HK_SIGNAL_REGISTERS;
    for (unsigned i = 0; i < HK_REGS; i++)
        if (!load_word(walk, from + order[i] * WORD, &walk->registers[i]))
            return false;
    walk->interrupted = true;
    return true;
}

static bool is_code(struct stack_walk *walk, uintptr_t address)
{
    return address - walk->code.start < walk->code.size || hk_os.code_at(address, &walk->code);
}

static bool can_read(uintptr_t from, size_t size) { return hk_os.readable(from) && hk_os.readable(from + size - 1); }

#define IS_CODE_OF(at, code) (can_read(at, sizeof code - 1) && memcmp((const void *)(at), code, sizeof code - 1) == 0)

/* Returns true if the address may be a return address into generated code, such as that of a JIT compiler. Such code belongs to no module. */
__attribute__((no_sanitize("address"))) static bool is_after_call(uintptr_t address)
{
    return can_read(address - HK_CALL_BYTES, HK_CALL_BYTES) && HK_CALL_ENDS_AT((const uint8_t *)address);
}

/* Moves to the caller of code without a table. Follows the frame pointers if they lead upward to code of a module or to generated code. */
static bool step_by_frame(struct stack_walk *walk)
{
    uintptr_t frame = walk->registers[HK_REG_FRAME], next, code;
    if (frame - walk->registers[HK_REG_STACK] >= FRAMES_BELOW || !load_word(walk, frame, &next) ||
        !load_word(walk, frame + WORD, &code))
        return false;
    HK_UNSIGNED_CODE(code);
    if (code == 0 || (!is_code(walk, code - 1) && !is_after_call(code)))
        return false;
    walk->registers[HK_REG_FRAME] = next;
    return enter_caller_at(walk, frame + 2 * WORD, code);
}

static bool step_out(struct stack_walk *walk)
{
    struct hk_rules rules;
    struct hk_code *code = &walk->code;
    uintptr_t at = walk->registers[HK_REG_CODE], address = at - !walk->interrupted;
    uint64_t cfa, slots[2];
    bool found = is_code(walk, address);
    uint64_t key = (address ^ (code->start + code->size * SPREAD + (uintptr_t)code->table)) * SPREAD;
    if (found && find_row(key, &cfa, slots))
        return step_by_row(walk, cfa, slots);
    /* The unwind table is read only if it is readable, because the code address may come from a broken stack or from a module that was unloaded. */
    found = found && code->table < code->to && can_read((uintptr_t)code->table, (size_t)(code->to - code->table)) &&
            hk_unwind_find(&rules, code, address);
    if (found && !rules.of_signal) {
        keep_row(key, &rules);
        return step_by_rules(walk, &rules);
    }
    if (!found && IS_CODE_OF(at, HK_TRAMPOLINE_END))
        return step_by_row(walk, (uint64_t)HK_REG_STACK << 32 | 2 * WORD, (uint64_t[2]){0, 0});
    return found || IS_CODE_OF(at, HK_SIGNAL_RETURN) ? step_over_signal(walk) : step_by_frame(walk);
}

void hk_stack_follow(struct hk_stack *stack, const struct hk_fault *fault)
{
    struct stack_walk walk = {
        .registers = {[HK_REG_CODE] = fault->code, [HK_REG_FRAME] = fault->frame, [HK_REG_STACK] = fault->stack},
        .interrupted = true};
    stack->depth = 1;
    stack->frames[0] = (void *)fault->code;
    while (stack->depth < HK_STACK_MOST && step_out(&walk))
        stack->frames[stack->depth++] = (void *)walk.registers[HK_REG_CODE];
}

void hk_stack_capture(struct hk_stack *stack, void *caller)
{
    struct stack_walk walk = {.interrupted = true};
    HK_REGISTERS_HERE(walk.registers);
    stack->depth = 0;
    for (unsigned own = 0; own < OWN_FRAMES && stack->depth < HK_STACK_MOST && step_out(&walk);) {
        void *code = (void *)walk.registers[HK_REG_CODE];
        if (stack->depth > 0 || code == caller)
            stack->frames[stack->depth++] = code;
        else
            own++;
    }
    if (stack->depth == 0)
        stack->frames[stack->depth++] = caller;
}

/* Packs the differences of successive frames as numbers of DWARF (signed LEB128), because a small difference of either sign then needs few bytes. */
void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread)
{
    uintptr_t before = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < stack->depth && used + MOST_BYTES <= HK_PACKED_BYTES; i++) {
        int64_t left = (int64_t)((uintptr_t)stack->frames[i] - before);
        for (; left < -64 || left > 63; left >>= 7)
            packed->packed[used++] = (uint8_t)(left | 128);
        packed->packed[used++] = (uint8_t)(left & 127);
        before = (uintptr_t)stack->frames[i];
    }
    /* A stack in the table is written once. The release store makes its frames visible to each thread that sees the length. */
    __atomic_store_n(&packed->bytes, (uint16_t)used, __ATOMIC_RELEASE);
    packed->thread = thread;
}

/* Unpacks a stack. Limits each loop, because a reader in a signal handler may see a stack that is only partly written. */
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed)
{
    size_t bytes = hk_min(__atomic_load_n(&packed->bytes, __ATOMIC_ACQUIRE), HK_PACKED_BYTES);
    struct hk_unwind_reader reader = {packed->packed, packed->packed + bytes, false};
    uintptr_t frame = 0;
    for (stack->depth = 0; reader.at < reader.end && stack->depth < HK_STACK_MOST; stack->depth++) {
        frame += (uintptr_t)hk_unwind_signed(&reader);
        stack->frames[stack->depth] = (void *)frame;
    }
}

enum { LOOKS = 32, ROOM_FOR_STACKS = HK_STACK_TABLE_SIZE / 4 * 3 };

struct kept_stack {
    _Atomic uint64_t xhash; /* hash of the stack; 0: the slot is empty */
    struct hk_packed_stack stack;
};

static struct kept_stack *kept_stacks HK_COLD_DATA;
static _Atomic uint32_t xused HK_COLD_DATA;

bool hk_stack_table_make(void)
{
    if (kept_stacks == NULL)
        kept_stacks = hk_meta_alloc(HK_STACK_TABLE_SIZE * sizeof *kept_stacks);
    return kept_stacks != NULL;
}

uint64_t hk_stack_hash(const struct hk_stack *stack, uint64_t seed)
{
    uint64_t hash = seed ^ stack->depth;
    for (unsigned i = 0; i < stack->depth; i++) {
        hash = (hash ^ (uintptr_t)stack->frames[i]) * SPREAD;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Returns the slot of the stack or, if `may_take` is true, takes an empty slot for the stack. Returns NULL if there is no slot. The hash in a slot
 * says only to which stack the slot belongs. The length of the packed stack says whether the stack has been written. */
static struct kept_stack *enter_stack(const struct hk_stack *stack, bool may_take)
{
    uint64_t hash = hk_stack_hash(stack, 0) | 1;
    for (size_t at = hash >> 1, look = 0; look < LOOKS; look++, at++) {
        struct kept_stack *slot = &kept_stacks[at % HK_STACK_TABLE_SIZE];
        uint64_t there = hk_load(slot->xhash);
        if (may_take && there == 0 && hk_replace(slot->xhash, &there, hash, memory_order_relaxed)) {
            hk_add(xused, 1);
            hk_stack_pack(&slot->stack, stack, 0);
            return slot;
        }
        if (there == hash)
            return slot;
    }
    return NULL;
}

uint32_t hk_stack_table_enter(const struct hk_stack *stack)
{
    if (HK_UNLIKELY(kept_stacks == NULL))
        return 0;
    struct kept_stack *slot = enter_stack(stack, hk_load(xused) < ROOM_FOR_STACKS);
    if (slot == NULL)
        slot = enter_stack(&(struct hk_stack){1, {stack->frames[0]}}, true);
    return slot != NULL ? (uint32_t)(slot - kept_stacks) + 1 : 0;
}

const struct hk_packed_stack *hk_stack_table_get(uint32_t number)
{
    return number == 0 || number > HK_STACK_TABLE_SIZE ? NULL : &kept_stacks[number - 1].stack;
}
