/* Makes and releases the slabs of a user heap, takes blocks from these slabs, and frees blocks into them. Several small slabs may share a slice. */
#include "heaps/heap_slabs.h"
#include "policy/gate.h"
#include "span/meta.h"
#include "span/page_heap.h"

enum {
    SHARED_TO = 4096,    /* bytes; slabs of larger blocks never share a slice */
    SHARED_OF_CLASS = 2, /* number of slabs of a class that share slices; further slabs get spans of their own */
};
#define DENSE_FROM HK_MIB /* a heap that is charged for fewer bytes gets sparse spans */

static unsigned class_of(const struct hk_slab *slab) { return slab->d.class & (HK_OF_HEAP - 1u); }

/* Charges a span to the heap, and allocates it. Returns 0 if the limit or the system refuses. Sets *by_limit to true if the limit refused. */
static uintptr_t charged_span(struct hak_heap *heap, size_t bytes, enum hk_use use, bool *by_limit)
{
    *by_limit = !hk_heap_charge(heap, bytes);
    uintptr_t start = *by_limit ? 0 : hk_span_alloc(bytes / HK_SLICE, use, &(bool){false});
    if (start == 0 && !*by_limit)
        hk_heap_uncharge(heap, bytes);
    return start;
}

static void return_span(struct hak_heap *heap, uintptr_t start, size_t bytes, uint32_t entry)
{
    hk_page_map_set(start, bytes / HK_SLICE, entry);
    /* While the guard is on, all free memory must be zero. Frees of blocks in user heaps do not zero the blocks, so the span is zeroed here. */
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_GUARD)))
        memset((void *)start, 0, bytes);
    hk_span_free(start, bytes / HK_SLICE);
    hk_heap_uncharge(heap, bytes);
}

static void drop_slice(struct hk_heap_slice *slice)
{
    if (slice->slabs != NULL)
        hk_meta_free(slice->slabs, HK_SLICE_PAGES * sizeof *slice->slabs);
    hk_descriptor_drop(&slice->d);
}

static struct hk_heap_slice *make_slice(struct hak_heap *heap, bool *by_limit)
{
    *by_limit = false;
    struct hk_heap_slice *slice = (struct hk_heap_slice *)(void *)hk_descriptor_new();
    if (slice == NULL)
        return NULL;
    slice->slabs = hk_meta_alloc(HK_SLICE_PAGES * sizeof *slice->slabs);
    uintptr_t start = slice->slabs != NULL ? charged_span(heap, HK_SLICE, HK_USE_SPARSE, by_limit) : 0;
    if (start == 0) {
        drop_slice(slice);
        return NULL;
    }
    slice->d = (struct hk_descriptor){.start = start, .bytes = HK_SLICE, .class = HK_CLASS_SHARED | HK_OF_HEAP};
    memset(slice->classes, HK_NO_CLASS, sizeof slice->classes);
    slice->free_pages = UINT16_MAX;
    HK_HEAP_LIST_PUSH(&heap->slices, slice);
    hk_page_map_assign(start, 1, heap->key | HK_CLASS_SHARED * HK_CLASS_BYTES, &slice->d);
    hk_page_map_cover_marks(start, HK_SLICE);
    hk_marks_note_pages(start, HK_SLICE, HK_MARK_NONE);
    return slice;
}

static void release_slice(struct hak_heap *heap, struct hk_heap_slice *slice, uint32_t entry)
{
    uintptr_t start = slice->d.start;
    HK_HEAP_LIST_REMOVE(&heap->slices, slice);
    hk_marks_note_pages(start, HK_SLICE, HK_MARK_NONE);
    return_span(heap, start, HK_SLICE, entry);
    drop_slice(slice);
}

/* Returns how many pages a slab of the class has in a shared slice. They hold at least 4 blocks. Returns 0 if slabs of the class never share. */
static unsigned shared_pages(unsigned class)
{
    size_t size = hk_classes[class].size;
    return size <= 512 ? 1 : size <= 1024 ? 2 : size <= SHARED_TO ? 4 : 0;
}

static void set_pages(struct hk_heap_slice *slice, size_t first, size_t n, struct hk_slab *slab)
{
    for (size_t page = first; page < first + n; page++) {
        slice->slabs[page] = slab;
        slice->classes[page] = slab != NULL ? (uint8_t)class_of(slab) : HK_NO_CLASS;
    }
    hk_marks_note_pages(slice->d.start + first * HK_PAGE, n * HK_PAGE,
                        slab != NULL ? hk_mark_of_class(class_of(slab)) : HK_MARK_NONE);
    unsigned mask = ((1u << n) - 1) << first;
    slice->free_pages = (uint16_t)(slab != NULL ? slice->free_pages & ~mask : slice->free_pages | mask);
}

static struct hk_slab *make_sharing(struct hak_heap *heap, unsigned class, bool *by_limit)
{
    unsigned pages = shared_pages(class);
    struct hk_slab *slab = hk_slab_cut(class, pages * HK_PAGE, 0, false);
    if (slab == NULL)
        return NULL;
    slab->d.class |= HK_OF_HEAP;
    struct hk_heap_slice *slice = heap->slices;
    while (slice != NULL && hk_runs32(slice->free_pages, pages) == 0)
        slice = slice->next;
    if (slice == NULL && (slice = make_slice(heap, by_limit)) == NULL) {
        hk_slab_drop(slab);
        return NULL;
    }
    unsigned first = hk_ctz64(hk_runs32(slice->free_pages, pages));
    slab->d.start = slice->d.start + first * HK_PAGE;
    set_pages(slice, first, pages, slab);
    return slab;
}

/* Makes a slab with its own span. If the limit does not allow a span of the usual size, takes a shorter span. */
static struct hk_slab *make_whole(struct hak_heap *heap, unsigned class, bool *by_limit)
{
    size_t size = hk_classes[class].size, bytes = hk_classes[class].slab_bytes;
    bool sparse = hk_load(heap->xcharged) < DENSE_FROM;
    enum hk_use use = sparse ? HK_USE_SPARSE : size <= HK_TOUCHED_WHOLE ? HK_USE_DENSE : HK_USE_UNSURE;
    uintptr_t start;
    while ((start = charged_span(heap, bytes, use, by_limit)) == 0 && *by_limit && bytes - HK_SLICE >= size)
        bytes = hk_align_up(hk_max(bytes / 2, size), HK_SLICE);
    struct hk_slab *slab = start != 0 ? hk_slab_cut(class, bytes, 0, false) : NULL;
    if (slab == NULL && start != 0)
        return_span(heap, start, bytes, 0);
    if (slab == NULL)
        return NULL;
    slab->d.class |= HK_OF_HEAP;
    slab->d.start = start;
    hk_page_map_assign(start, bytes / HK_SLICE, heap->key | class * HK_CLASS_BYTES, &slab->d);
    if (class >= HK_FINE_CLASSES)
        hk_page_map_cover_marks(start, bytes);
    return slab;
}

static struct hk_slab *make_for_heap(struct hak_heap *heap, unsigned class, bool *by_limit)
{
    bool may_share = shared_pages(class) != 0, shares = may_share && heap->slabs_of[class] < SHARED_OF_CLASS;
    struct hk_slab *slab = shares ? make_sharing(heap, class, by_limit) : make_whole(heap, class, by_limit);
    if (slab == NULL && may_share && !shares) /* no span is available, but some pages of a shared slice may be */
        slab = make_sharing(heap, class, by_limit);
    if (slab == NULL)
        return NULL;
    heap->slabs++;
    heap->slabs_of[class]++;
    HK_HEAP_LIST_PUSH(&heap->partial[class], &slab->link);
    return slab;
}

unsigned hk_heap_take(struct hak_heap *heap, unsigned class, void **end, unsigned want, bool *by_limit)
{
    unsigned got = 0;
    while (got < want) {
        struct hk_slab *slab = hk_slab_of_link(heap->partial[class]);
        if (slab == NULL && got > 0)
            break; /* a kept or a new slab is used only for the first block, not to fill the bin */
        if (slab == NULL && class < HK_FINE_CLASSES && (slab = hk_slab_of_link(heap->empty[class])) != NULL) {
            heap->empty[class] = NULL;
            HK_HEAP_LIST_PUSH(&heap->partial[class], &slab->link);
        }
        if (slab == NULL && (slab = make_for_heap(heap, class, by_limit)) == NULL)
            break;
        unsigned n = (unsigned)hk_min(want - got, slab->free);
        hk_slab_alloc(slab, end - got, n);
        got += n;
        if (slab->free == 0) {
            HK_HEAP_LIST_REMOVE(&heap->partial[class], &slab->link);
            HK_HEAP_LIST_PUSH(&heap->full, &slab->link);
        }
    }
    heap->taken_blocks += got;
    heap->taken += (size_t)got * hk_classes[class].size;
    return got;
}

/* Releases a slab. Precondition: the slab is on no list. */
static void release_slab(struct hak_heap *heap, struct hk_slab *slab)
{
    heap->slabs--;
    heap->slabs_of[class_of(slab)]--;
    if (slab->d.bytes < HK_SLICE) { /* the slab shares a slice */
        struct hk_heap_slice *slice = (struct hk_heap_slice *)(void *)hk_descriptor_at(slab->d.start);
        set_pages(slice, slab->d.start / HK_PAGE % HK_SLICE_PAGES, slab->d.bytes / HK_PAGE, NULL);
        bool only_one = heap->slices == slice && slice->next == NULL;
        if (slice->free_pages == UINT16_MAX && (!only_one || heap->slabs == 0))
            release_slice(heap, slice, HK_ENTRY_EMPTIED);
    } else
        return_span(heap, slab->d.start, slab->d.bytes, HK_ENTRY_EMPTIED);
    hk_slab_drop(slab);
}

static struct hk_slab *slab_with(const void *block, uint32_t entry)
{
    if (hk_entry_class(entry) < HK_CLASSES)
        return hk_slab_at((uintptr_t)block);
    const struct hk_heap_slice *slice = (const void *)hk_descriptor_at((uintptr_t)block);
    return slice->slabs[(uintptr_t)block / HK_PAGE % HK_SLICE_PAGES];
}

const char *hk_heap_fault_at(const void *block, uint32_t entry)
{
    const struct hk_slab *slab = slab_with(block, entry);
    size_t index;
    if (slab == NULL)
        return HK_TEXT_already_free;
    if (!hk_slab_begins(slab, (uintptr_t)block, &index))
        return HK_TEXT_inside;
    return (slab->freebits[index / 64] >> index % 64 & 1) != 0 ? HK_TEXT_already_free : NULL;
}

/* Updates the counts and lists after `n` blocks of a slab were freed. If all blocks of the slab are now free, keeps or releases the slab. */
static void settle_freed(struct hak_heap *heap, struct hk_slab *slab, size_t n)
{
    unsigned class = class_of(slab), free = hk_slab_count_free(slab, n);
    heap->taken_blocks -= n;
    heap->taken -= n * slab->d.block_size;
    if (free == n) {
        HK_HEAP_LIST_REMOVE(&heap->full, &slab->link);
        HK_HEAP_LIST_PUSH(&heap->partial[class], &slab->link);
    }
    if (free < slab->d.blocks)
        return;
    HK_HEAP_LIST_REMOVE(&heap->partial[class], &slab->link);
    /* Keeps the slab for the next miss if its class is fine and has no other free blocks, taken_blocks is not 0, and the limit is not near. */
    size_t limit = hk_load(heap->xlimit);
    bool only_one = class < HK_FINE_CLASSES && heap->partial[class] == NULL && heap->empty[class] == NULL;
    bool near = limit != 0 && hk_load(heap->xcharged) > limit - limit / 4;
    if (only_one && !near && heap->taken_blocks > 0)
        HK_HEAP_LIST_PUSH(&heap->empty[class], &slab->link);
    else
        release_slab(heap, slab);
}

void hk_heap_put(struct hak_heap *heap, void *const *blocks, unsigned n)
{
    void *const *at = blocks, *const *end = blocks + n;
    while (at != end) {
        uint32_t entry = hk_page_map_lookup((uintptr_t)*at);
        bool left = hk_entry_is_left(entry);
        if (!left && hk_entry_owner(entry) != HK_FIRST_HEAP + heap->index)
            hk_invalid_pointer(HK_CALL_FLUSH, HK_TEXT_heap_other, *at);
        struct hk_slab *slab = left ? NULL : slab_with(*at, entry);
        if (slab == NULL)
            hk_invalid_pointer(HK_CALL_FLUSH, HK_TEXT_already_free, *at);
        void *const *from = at;
        while (at != end && hk_slab_mark_free(slab, at))
            at++;
        if (at == from)
            hk_slab_refuse(slab, *at);
        settle_freed(heap, slab, (size_t)(at - from));
    }
}

void hk_heap_release_empty(struct hak_heap *heap)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        struct hk_slab *slab = hk_slab_of_link(heap->empty[class]);
        heap->empty[class] = NULL;
        if (slab != NULL)
            release_slab(heap, slab);
    }
    if (heap->slices != NULL && heap->slices->free_pages == UINT16_MAX)
        release_slice(heap, heap->slices, HK_ENTRY_EMPTIED);
}

static void end_slabs(struct hak_heap *heap, struct hk_link **list)
{
    for (struct hk_slab *slab; (slab = hk_slab_of_link(*list)) != NULL;) {
        HK_HEAP_LIST_REMOVE(list, &slab->link);
        for (size_t index = 0; class_of(slab) >= HK_FINE_CLASSES && index < slab->d.blocks; index++)
            (void)hk_mark_end_fast(hk_slab_block(slab, index));
        if (slab->d.bytes >= HK_SLICE)
            return_span(heap, slab->d.start, slab->d.bytes, HK_ENTRY_ENDED);
        hk_slab_drop(slab);
    }
}

void hk_heap_release_all(struct hak_heap *heap)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        end_slabs(heap, &heap->partial[class]);
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        end_slabs(heap, &heap->empty[class]);
    end_slabs(heap, &heap->full);
    while (heap->slices != NULL)
        release_slice(heap, heap->slices, HK_ENTRY_ENDED);
    heap->slabs = 0;
    heap->taken = heap->taken_blocks = 0;
    memset(heap->slabs_of, 0, sizeof heap->slabs_of);
}
