#include "slab/outbox.h"

#include "base/bits.h"
#include "os/os.h"
#include "slab/registry.h"

/* The block itself carries the message: it is free, and 16 bytes is the smallest there is. */
static bool post_bare(struct hk_owner *owner, unsigned class, void *block)
{
    struct hk_parcel *parcel = block;
    parcel->count = 0;
    parcel->class = (uint16_t)class;
    return hk_inbox_post(owner, parcel);
}

void hk_deliver(void *block)
{
    for (;;) {
        uint32_t route = hk_map_lookup((uintptr_t)block);
        uint32_t owner = hk_route_owner(route);
        unsigned class = hk_route_class(route);
        if (owner == HK_NOBODY)
            hk_slab_invalid(HK_CALL_FLUSH, "block already free", block);
        if (owner == HK_ORPHAN ? hk_registry_free(block, class) : post_bare(hk_owner_by_id(owner), class, block))
            return;
        /* The owner is just ending or forking: its slabs change hands, or its inbox opens again, in a moment. */
        hk_os.pause();
    }
}

static void send(uint32_t route, struct hk_parcel *parcel)
{
    if (hk_inbox_post(hk_owner_by_id(hk_route_owner(route)), parcel))
        return;
    for (unsigned i = 0; i < parcel->count; i++)
        hk_deliver(parcel->blocks[i]);
    hk_parcel_drop(parcel);
}

static void empty_slot(struct hk_outbox *outbox, unsigned slot)
{
    outbox->filled &= ~((uint64_t)1 << slot);
    send(outbox->slots[slot].route, outbox->slots[slot].parcel);
    outbox->slots[slot].route = 0;
    outbox->slots[slot].parcel = NULL;
}

static unsigned slot_of(uint32_t route)
{
    uint32_t mixed = (route / HK_CLASS_BYTES) * 0x9e3779b1u;
    return mixed >> 26;
}

void hk_outbox_put(struct hk_outbox *outbox, uint32_t route, void *block)
{
    unsigned number = slot_of(route);
    struct hk_outbox_slot *slot = &outbox->slots[number];
    if (HK_UNLIKELY(slot->route != route)) {
        if (slot->route != 0)
            empty_slot(outbox, number);
        struct hk_parcel *parcel = hk_parcel_new();
        if (parcel == NULL) {
            hk_deliver(block);
            return;
        }
        parcel->class = (uint16_t)hk_route_class(route);
        parcel->room = (uint16_t)hk_parcel_room(parcel->class);
        slot->parcel = parcel;
        slot->route = route;
        outbox->filled |= (uint64_t)1 << number;
    }
    struct hk_parcel *parcel = slot->parcel;
    parcel->blocks[parcel->count++] = block;
    if (HK_UNLIKELY(parcel->count >= parcel->room))
        empty_slot(outbox, number);
}

void hk_outbox_post_all(struct hk_outbox *outbox)
{
    while (outbox->filled != 0)
        empty_slot(outbox, hk_ctz64(outbox->filled));
}

size_t hk_outbox_forget(struct hk_outbox *outbox)
{
    size_t blocks = 0;
    for (unsigned slot = 0; slot < HK_OUTBOX_SLOTS; slot++) {
        if (outbox->slots[slot].parcel != NULL)
            blocks += hk_min(outbox->slots[slot].parcel->count, HK_PARCEL_BLOCKS);
        outbox->slots[slot].route = 0;
        outbox->slots[slot].parcel = NULL;
    }
    outbox->filled = 0;
    return blocks;
}

size_t hk_outbox_bytes(const struct hk_outbox *outbox)
{
    size_t bytes = 0;
    for (uint64_t left = outbox->filled; left != 0; left &= left - 1) {
        const struct hk_parcel *parcel = outbox->slots[hk_ctz64(left)].parcel;
        bytes += (size_t)parcel->count * hk_classes[parcel->class].size;
    }
    return bytes;
}
