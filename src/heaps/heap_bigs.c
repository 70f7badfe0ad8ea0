#include "heaps/heap_bigs.h"

#include "span/meta.h"

struct hk_heap_big {
    struct hak_heap *heap;
    struct hk_heap_big *next, *prev; /* of the heap */
    struct hk_big_block *big;        /* its block may move */
    size_t bytes;                    /* charged */
};

/* The note of a big block of a heap. */
static struct hk_heap_big *note_of(enum hk_call call, const void *block)
{
    const struct hk_big_block *big = hk_big_at((uintptr_t)block);
    if (big->d.start != (uintptr_t)block)
        hk_invalid_pointer(call, "pointer inside a block", block);
    return hk_load(big->xnote);
}

size_t hk_heap_big_bytes(enum hk_call call, const void *block)
{
    (void)note_of(call, block);
    return hk_big_at((uintptr_t)block)->requested;
}

/* Writes the entry of the slice that a big block begins in. */
static void set_entry(const void *block, uint32_t entry)
{
    hk_page_map_set(hk_align_down((uintptr_t)block, HK_SLICE), 1, entry);
}

static void mark_as(const struct hak_heap *heap, const void *block)
{
    set_entry(block, heap->key | HK_CLASS_BIG * HK_CLASS_BYTES);
}

static bool charge_big(struct hak_heap *heap, size_t bytes)
{
    if (!hk_heap_charge(heap, bytes))
        return false;
    hk_add(heap->xbig, bytes);
    return true;
}

static void uncharge_big(struct hak_heap *heap, size_t bytes)
{
    hk_sub(heap->xbig, bytes);
    hk_heap_uncharge(heap, bytes);
}

static void enter_note(struct hk_heap_big *note)
{
    struct hak_heap *heap = note->heap;
    hk_heap_lock(heap);
    note->next = heap->bigs;
    if (note->next != NULL)
        note->next->prev = note;
    heap->bigs = note;
    heap->big_calls++;
    heap->bigs_live++;
    hk_heap_unlock(heap);
}

static void leave_note_locked(struct hk_heap_big *note)
{
    note->heap->bigs_live--;
    if (note->next != NULL)
        note->next->prev = note->prev;
    if (note->prev != NULL)
        note->prev->next = note->next;
    else
        note->heap->bigs = note->next;
}

void *hk_heap_big_alloc(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, bool *by_limit)
{
    *by_limit = false;
    if (size > PTRDIFF_MAX - HK_SLICE)
        return NULL;
    size_t bytes = hk_big_bytes_for(size);
    struct hk_heap_big *note = hk_meta_alloc(sizeof *note);
    if (note == NULL)
        return NULL;
    *by_limit = !charge_big(heap, bytes);
    void *block = *by_limit ? NULL : hk_big_alloc(size, align, zeroed);
    if (block == NULL) {
        if (!*by_limit)
            uncharge_big(heap, bytes);
        hk_meta_free(note, sizeof *note);
        return NULL;
    }
    *note = (struct hk_heap_big){.heap = heap, .big = hk_big_at((uintptr_t)block), .bytes = bytes};
    hk_store(note->big->xnote, note);
    mark_as(heap, block);
    enter_note(note);
    return block;
}

/* The note goes first: a fork child finds the block on the list, or not a heap's. */
static void free_noted(struct hk_heap_big *note)
{
    void *block = (void *)note->big->d.start;
    hk_store(note->big->xnote, NULL);
    set_entry(block, hk_entry(HK_NOBODY, HK_CLASS_BIG));
    uncharge_big(note->heap, note->bytes);
    hk_meta_free(note, sizeof *note);
    hk_big_free(block);
}

void hk_heap_big_free(enum hk_call call, void *block)
{
    struct hk_heap_big *note = note_of(call, block);
    struct hak_heap *heap = note->heap;
    hk_heap_lock(heap);
    leave_note_locked(note);
    hk_heap_unlock(heap);
    free_noted(note);
}

/* Where the pages move, or were to move, the room big writes an entry of its own. */
void *hk_heap_big_resize(void *block, size_t size)
{
    struct hk_heap_big *note = note_of(HK_CALL_REALLOC, block);
    size_t bytes = hk_big_bytes_for(size), before = note->bytes;
    if (bytes > before && !charge_big(note->heap, bytes - before))
        return NULL;
    void *resized = hk_big_resize(block, size);
    size_t now = resized != NULL ? bytes : before, charged = hk_max(bytes, before);
    if (charged > now)
        uncharge_big(note->heap, charged - now);
    note->bytes = now;
    mark_as(note->heap, (void *)note->big->d.start);
    return resized;
}

void hk_heap_bigs_recount(struct hak_heap *heap)
{
    size_t bytes = 0, before = hk_load(heap->xbig);
    for (const struct hk_heap_big *note = heap->bigs; note != NULL; note = note->next)
        bytes += note->bytes;
    hk_store(heap->xbig, bytes);
    hk_store(heap->xcharged, hk_load(heap->xcharged) - before + bytes);
}

void hk_heap_bigs_end(struct hak_heap *heap)
{
    for (;;) {
        hk_heap_lock(heap);
        struct hk_heap_big *note = heap->bigs;
        if (note != NULL)
            leave_note_locked(note);
        hk_heap_unlock(heap);
        if (note == NULL)
            return;
        free_noted(note);
    }
}
