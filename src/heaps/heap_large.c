/* Allocates, frees and resizes the large blocks of a user heap, and counts their bytes against the heap's limit. */
#include "heaps/heap_large.h"

#include "heaps/heap_cache.h"
#include "span/meta.h"

struct hk_heap_large {
    struct hak_heap *heap;
    struct hk_heap_large *next, *prev; /* of the heap */
    struct hk_large_block *large;      /* its block may move */
    size_t bytes;                      /* charged */
};

bool hk_heap_large_begins_at(const void *block) { return hk_large_at((uintptr_t)block)->d.start == (uintptr_t)block; }

/* The note of a large block of a heap. */
static struct hk_heap_large *note_of(enum hk_call call, const void *block)
{
    if (!hk_heap_large_begins_at(block))
        hk_invalid_pointer(call, HK_TEXT_inside, block);
    return hk_load(hk_large_at((uintptr_t)block)->xnote);
}

size_t hk_heap_large_bytes(enum hk_call call, const void *block)
{
    (void)note_of(call, block);
    return hk_large_at((uintptr_t)block)->requested;
}

/* Writes the entry of the slice that a large block begins in. */
static void set_entry(const void *block, uint32_t entry)
{
    hk_page_map_set(hk_align_down((uintptr_t)block, HK_SLICE), 1, entry);
}

static void mark_as(const struct hak_heap *heap, const void *block)
{
    set_entry(block, heap->key | HK_CLASS_LARGE * HK_CLASS_BYTES);
}

static bool charge_large(struct hak_heap *heap, size_t bytes)
{
    if (!hk_heap_charge(heap, bytes))
        return false;
    hk_add(heap->xbig, bytes);
    return true;
}

static bool charge_or_recall(struct hak_heap *heap, size_t bytes)
{
    if (charge_large(heap, bytes))
        return true;
    hk_heap_recall(NULL, heap);
    return charge_large(heap, bytes);
}

static void uncharge_large(struct hak_heap *heap, size_t bytes)
{
    hk_sub(heap->xbig, bytes);
    hk_heap_uncharge(heap, bytes);
}

static void enter_note(struct hk_heap_large *note)
{
    struct hak_heap *heap = note->heap;
    hk_heap_lock(heap);
    note->next = heap->large;
    if (note->next != NULL)
        note->next->prev = note;
    heap->large = note;
    heap->large_calls++;
    heap->large_blocks_live++;
    hk_heap_unlock(heap);
}

static void leave_note_locked(struct hk_heap_large *note)
{
    note->heap->large_blocks_live--;
    if (note->next != NULL)
        note->next->prev = note->prev;
    if (note->prev != NULL)
        note->prev->next = note->next;
    else
        note->heap->large = note->next;
}

void *hk_heap_large_alloc(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, bool *by_limit)
{
    *by_limit = false;
    if (size > PTRDIFF_MAX - HK_SLICE)
        return NULL;
    size_t bytes = hk_large_bytes_for(size);
    struct hk_heap_large *note = hk_meta_alloc(sizeof *note);
    if (note == NULL)
        return NULL;
    *by_limit = !charge_large(heap, bytes);
    void *block = *by_limit ? NULL : hk_large_alloc(size, align, zeroed);
    if (block == NULL) {
        if (!*by_limit)
            uncharge_large(heap, bytes);
        hk_meta_free(note, sizeof *note);
        return NULL;
    }
    *note = (struct hk_heap_large){.heap = heap, .large = hk_large_at((uintptr_t)block), .bytes = bytes};
    hk_store(note->large->xnote, note);
    mark_as(heap, block);
    enter_note(note);
    return block;
}

/* The note goes first: a fork child finds the block on the list, or not a heap's. */
static void free_noted(struct hk_heap_large *note, uint32_t entry)
{
    void *block = (void *)note->large->d.start;
    hk_store(note->large->xnote, NULL);
    note->large->ended = entry == HK_ENTRY_ENDED_LARGE;
    set_entry(block, entry);
    uncharge_large(note->heap, note->bytes);
    hk_meta_free(note, sizeof *note);
    hk_large_free(block);
}

void hk_heap_large_free(enum hk_call call, void *block)
{
    struct hk_heap_large *note = note_of(call, block);
    struct hak_heap *heap = note->heap;
    hk_heap_lock(heap);
    leave_note_locked(note);
    hk_heap_unlock(heap);
    free_noted(note, hk_entry(HK_NOBODY, HK_CLASS_LARGE));
}

/* Where the pages move, or were to move, the room large writes an entry of its own. */
void *hk_heap_large_resize(void *block, size_t size)
{
    struct hk_heap_large *note = note_of(HK_CALL_REALLOC, block);
    size_t bytes = hk_large_bytes_for(size), before = note->bytes;
    if (bytes > before && !charge_or_recall(note->heap, bytes - before))
        return NULL;
    void *resized = hk_large_resize(block, size);
    size_t now = resized != NULL ? bytes : before, charged = hk_max(bytes, before);
    if (charged > now)
        uncharge_large(note->heap, charged - now);
    note->bytes = now;
    mark_as(note->heap, (void *)note->large->d.start);
    return resized;
}

void hk_heap_large_recount(struct hak_heap *heap)
{
    size_t bytes = 0, before = hk_load(heap->xbig);
    for (const struct hk_heap_large *note = heap->large; note != NULL; note = note->next)
        bytes += note->bytes;
    hk_store(heap->xbig, bytes);
    hk_store(heap->xcharged, hk_load(heap->xcharged) - before + bytes);
}

void hk_heap_large_end(struct hak_heap *heap)
{
    for (;;) {
        hk_heap_lock(heap);
        struct hk_heap_large *note = heap->large;
        if (note != NULL)
            leave_note_locked(note);
        hk_heap_unlock(heap);
        if (note == NULL)
            return;
        free_noted(note, HK_ENTRY_ENDED_LARGE);
    }
}
