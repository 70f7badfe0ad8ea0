/* Allocates descriptors in groups, and reports invalid pointers. */
#include "span/descriptor.h"
#include "base/lock.h"
#include "base/inline_copy.h"
#include "span/footprint.h"
#include "span/meta.h"

/* `next` lies after the descriptor's head, because a thread with a stale pointer may still read the head of an unused descriptor. */
union slot {
    struct {
        struct hk_descriptor d;
        union slot *next; /* links the unused slots */
    } free;
    char bytes[HK_DESCRIPTOR_BYTES] HK_ALIGNED(HK_CACHE_LINE);
};
_Static_assert(sizeof(union slot) == HK_DESCRIPTOR_BYTES, "slots lie side by side");
_Static_assert(offsetof(union slot, free.next) + sizeof(void *) == 2 * HK_QUANTUM, "the rest is quanta");

struct group {
    struct group *older;
    _Atomic uint32_t xmade;
    union slot slots[];
};
#define GROUP_BYTES (4 * HK_KIB)
enum { SLOTS_IN_GROUP = (GROUP_BYTES - sizeof(struct group)) / sizeof(union slot) };
static struct {
    struct hk_lock lock;
    _Atomic(struct group *) xnewest;
    union slot *unused;
} descriptors = {.lock = HK_LOCK_INIT(HK_RANK_DESCRIPTORS)};

const uintptr_t hk_descriptors_layout[] = {(uintptr_t)&descriptors.xnewest, offsetof(struct group, slots), GROUP_BYTES};
void hk_descriptors_init(void) { hk_lock_register(HK_RANK_DESCRIPTORS, &descriptors.lock); }

/* Takes the next slot of the newest group. If all slots of this group are taken, makes a new group. Returns NULL if the system refuses memory. */
static union slot *next_in_group(void)
{
    struct group *older = hk_load(descriptors.xnewest), *group = older;
    if (older == NULL || hk_load(older->xmade) == SLOTS_IN_GROUP) {
        if ((group = hk_meta_alloc(GROUP_BYTES)) == NULL)
            return NULL;
        group->older = older;
        hk_store_release(descriptors.xnewest, group);
    }
    uint32_t made = hk_load(group->xmade);
    hk_store_release(group->xmade, made + 1);
    return &group->slots[made];
}

struct hk_descriptor *hk_descriptor_new(void)
{
    hk_lock(&descriptors.lock);
    union slot *slot = descriptors.unused;
    if (slot == NULL) {
        slot = next_in_group();
    } else { /* clears the fields after the head, which belonged to the previous slab or large block */
        descriptors.unused = slot->free.next;
        slot->free.next = NULL;
        hk_inline_zero(slot->bytes + sizeof slot->free, sizeof slot->bytes - sizeof slot->free);
    }
    hk_unlock(&descriptors.lock);
    if (HK_UNLIKELY(slot == NULL))
        hk_footprint_refused(false);
    return (struct hk_descriptor *)(void *)slot;
}

void hk_descriptor_drop(struct hk_descriptor *descriptor)
{
    union slot *slot = (union slot *)(void *)descriptor;
    descriptor->start = 0;
    hk_lock(&descriptors.lock);
    slot->free.next = descriptors.unused;
    descriptors.unused = slot;
    hk_unlock(&descriptors.lock);
}

void hk_descriptors_visit(void (*visit)(struct hk_descriptor *descriptor, void *context), void *context)
{
    for (struct group *group = hk_load_acquire(descriptors.xnewest); group != NULL; group = group->older)
        for (uint32_t i = 0, made = hk_load_acquire(group->xmade); i < made; i++)
            visit(&group->slots[i].free.d, context);
}

static const char *number_or_dash(char *digits, size_t size, size_t value)
{
    if (value == 0)
        return "-";
    digits[--size] = 0;
    for (; value != 0; value /= 10)
        digits[--size] = (char)('0' + value % 10);
    return digits + size;
}

/* The names of the calls, in the order of enum hk_call. */
static const char *const call_names[] = {
    "free()",    "free_sized()",         "operator delete()", "sized operator delete()", "operator delete[]()",
    "realloc()", "malloc_usable_size()", "malloc()",          "free(), found later"};

/* Returns a hint at an option with which HAKMEM would find out more about the fault, or an empty text if there is no such option. */
static const char *advice(enum hk_call call, uint32_t entry)
{
    bool checks = hk_options.safe_free == HK_SAFE_FREE_ON || hk_options.safe_free == HK_SAFE_FREE_STRICT;
    if (call == HK_CALL_FLUSH && !checks)
        return "; HAKMEM_SAFE_FREE=1 finds it at the call";
    return entry != 0 ? "; HAKMEM_GUARD_SAMPLE=64k tells where a sampled block was allocated and freed" : "";
}

static void tell(void (*say)(const char *format, ...), enum hk_call call, const char *fault, const void *p)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)p), owner = hk_entry_owner(entry);
    char class_digits[24], owner_digits[24];
    if (hk_entry_is_left(entry)) /* the block's heap was destroyed, so class and owner are unknown */
        entry = owner = 0;
    size_t size = entry != 0 ? hk_descriptor_at((uintptr_t)p)->block_size : 0;
    const char *class_text = number_or_dash(class_digits, sizeof class_digits, size);
    const char *owner_text = number_or_dash(owner_digits, sizeof owner_digits, owner);
    say(HK_TEXT_pointer, call_names[call], fault, (uint64_t)(uintptr_t)p, class_text, owner_text, advice(call, entry));
}

HK_COLD void hk_invalid_pointer(enum hk_call call, const char *fault, const void *p)
{
    tell(hk_fatal, call, fault, p);
    __builtin_unreachable();
}

HK_COLD void hk_report_pointer(enum hk_call call, const char *fault, const void *p)
{
    tell(hk_message, call, fault, p);
}

HK_COLD void hk_invalid_size(enum hk_call call, size_t size, const void *block)
{
    struct hk_text fault = {.fd = HK_NOWHERE};
    hk_text_add(&fault, "%s: %zu bytes", HK_TEXT_other_size, size);
    fault.bytes[fault.used] = 0;
    hk_invalid_pointer(call, fault.bytes, block);
}
