/* Packs call stacks, keeps each packed stack once, and gives it a number. */
#include "guard/stack_table.h"

#include "span/meta.h"

enum { LOOKS = 32, ROOM_FOR_STACKS = HK_STACK_TABLE_SIZE / 4 * 3 };

struct kept_stack {
    _Atomic uint64_t xhash; /* 0: empty */
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

static uint64_t stack_hash(const struct hk_stack *stack)
{
    uint64_t hash = stack->depth;
    for (unsigned i = 0; i < stack->depth; i++) {
        hash = (hash ^ (uintptr_t)stack->frames[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash | 1;
}

/* The slot of the hash, or an empty one, which it may take. NULL if there is none. */
static struct kept_stack *find_kept(uint64_t hash, bool may_take, bool *taken)
{
    *taken = false;
    for (size_t at = hash >> 1, look = 0; look < LOOKS; look++, at++) {
        struct kept_stack *slot = &kept_stacks[at % HK_STACK_TABLE_SIZE];
        uint64_t there =
            hk_load(slot->xhash); /* only says whose the slot is: the stack's length says if it is written */
        *taken = may_take && there == 0 &&
                 atomic_compare_exchange_strong_explicit(&slot->xhash, &there, hash, memory_order_relaxed,
                                                         memory_order_relaxed);
        if (*taken || there == hash)
            return slot;
    }
    return NULL;
}

static struct kept_stack *enter_stack(const struct hk_stack *stack, bool may_take)
{
    bool taken;
    struct kept_stack *slot = find_kept(stack_hash(stack), may_take, &taken);
    if (taken) {
        hk_add(xused, 1);
        hk_stack_pack(&slot->stack, stack, 0);
    }
    return slot;
}

static struct kept_stack *enter_caller(const struct hk_stack *stack)
{
    struct hk_stack caller;
    caller.depth = 1;
    caller.frames[0] = stack->frames[0];
    return enter_stack(&caller, true);
}

uint32_t hk_stack_table_enter(const struct hk_stack *stack)
{
    if (HK_UNLIKELY(kept_stacks == NULL))
        return 0;
    struct kept_stack *slot = enter_stack(stack, hk_load(xused) < ROOM_FOR_STACKS);
    if (slot == NULL)
        slot = enter_caller(stack);
    return slot != NULL ? (uint32_t)(slot - kept_stacks) + 1 : 0;
}

const struct hk_packed_stack *hk_stack_table_get(uint32_t number)
{
    return number == 0 || number > HK_STACK_TABLE_SIZE ? NULL : &kept_stacks[number - 1].stack;
}

enum { BITS_A_BYTE = 7, MORE = 1 << BITS_A_BYTE, MOST_BYTES = 10 };

/* The sign goes to the lowest bit, so that small differences of both signs are short. */
static uint64_t folded(uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
static uint64_t unfolded(uint64_t folded) { return folded >> 1 ^ (0 - (folded & 1)); }

static unsigned put_varint(uint8_t *to, uint64_t number)
{
    unsigned n = 0;
    for (; number >= MORE; number >>= BITS_A_BYTE)
        to[n++] = (uint8_t)(number | MORE);
    to[n++] = (uint8_t)number;
    return n;
}

void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread)
{
    uintptr_t before = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < stack->depth && used + MOST_BYTES <= HK_PACKED_BYTES; i++) {
        uintptr_t frame = (uintptr_t)stack->frames[i];
        used += put_varint(packed->packed + used, folded(frame - before));
        before = frame;
    }
    /* Of a stack that is entered once and read by its number (stack_table.c): who sees the length sees what it is the length of. */
    __atomic_store_n(&packed->bytes, (uint16_t)used, __ATOMIC_RELEASE);
    packed->thread = thread;
}

/* A reader in a signal handler may see a stack that is just being written: each loop ends all the same. */
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed)
{
    unsigned whole = __atomic_load_n(&packed->bytes, __ATOMIC_ACQUIRE),
             bytes = whole < HK_PACKED_BYTES ? whole : HK_PACKED_BYTES;
    uintptr_t frame = 0;
    stack->depth = 0;
    for (unsigned at = 0; at < bytes && stack->depth < HK_STACK_MOST;) {
        uint64_t number = 0;
        unsigned shift = 0;
        for (; at < bytes - 1 && (packed->packed[at] & MORE) != 0 && shift < 63; shift += BITS_A_BYTE)
            number |= (uint64_t)(packed->packed[at++] & (MORE - 1)) << shift;
        number |= (uint64_t)packed->packed[at++] << shift;
        frame += unfolded(number);
        stack->frames[stack->depth++] = (void *)frame;
    }
}
