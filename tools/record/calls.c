/* Calls: defines malloc, free and related functions. Each one notes the program's call in the recording, and passes it on to the allocator below. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "next.h"
#include "recorder.h"

/* No header declares the functions as they are defined here: <stdlib.h> gives some of them other attributes. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Returns true if the allocator below can be called. */
static inline bool ready(void) { return REC_LIKELY(rec_ready) || rec_find_next(); }

/* Returns true for a call of the program, which must be noted. Returns false for a call that the allocator below makes itself. */
static inline bool enter(void)
{
    if (rec_self.inside)
        return false;
    rec_self.inside = true;
    return true;
}

static inline void leave(void) { rec_self.inside = false; }

static inline unsigned log_of(size_t align) { return align < 2 ? 0 : 63 - (unsigned)__builtin_clzll(align); }

/* Notes the block that the allocator below has returned, and ends the call that enter() began. */
static inline void *noted(enum rec_kind kind, void *block, size_t size, unsigned align_log)
{
    if (REC_LIKELY(block != NULL))
        rec_note_alloc(kind, block, size, align_log);
    leave();
    return block;
}

REC_EXPORT void *malloc(size_t size)
{
    if (!ready())
        return rec_early_alloc(size, 16);
    return enter() ? noted(REC_MALLOC, rec_next.malloc(size), size, 0) : rec_next.malloc(size);
}

REC_EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes = count * size;
    if (!ready())
        return size != 0 && bytes / size != count ? NULL : rec_early_alloc(bytes, 16);
    return enter() ? noted(REC_CALLOC, rec_next.calloc(count, size), bytes, 0) : rec_next.calloc(count, size);
}

static inline void free_noted(void *block)
{
    if (block == NULL || rec_is_early(block) || !ready())
        return;
    if (!enter()) {
        rec_next.free(block);
        return;
    }
    rec_note_free(REC_FREE, block, 0);
    rec_next.free(block);
    leave();
}

REC_EXPORT void free(void *block) { free_noted(block); }
REC_EXPORT void cfree(void *block) { free_noted(block); }

REC_EXPORT void free_sized(void *block, size_t size)
{
    (void)size;
    free_noted(block);
}

REC_EXPORT void free_aligned_sized(void *block, size_t align, size_t size)
{
    (void)align;
    (void)size;
    free_noted(block);
}

/* Resizes a block of the early arena (next.h) by copying it to a new block. The early block is never freed. */
static REC_COLD void *realloc_early(void *block, size_t size)
{
    size_t before = rec_early_size(block);
    void *moved = malloc(size);
    if (moved != NULL)
        memcpy(moved, block, before < size ? before : size);
    return moved;
}

/* Makes a realloc, and notes it as a free and an allocation, because the sample may contain only the old block or only the new one. */
static REC_COLD void *realloc_sampled(void *block, size_t size)
{
    rec_note_free(REC_FREE, block, 0);
    void *moved = rec_next.realloc(block, size);
    if (moved != NULL)
        rec_note_alloc(REC_MALLOC, moved, size, 0);
    else if (size != 0)
        rec_note_alloc(REC_MALLOC, block, rec_next.usable != NULL ? rec_next.usable(block) : 1, 0);
    return moved;
}

static inline void *realloc_noted(void *block, size_t size)
{
    if (block == NULL) {
        void *made = rec_next.realloc(NULL, size);
        if (made != NULL)
            rec_note_alloc(REC_MALLOC, made, size, 0);
        return made;
    }
    if (REC_UNLIKELY(rec_shared->sample > 1))
        return realloc_sampled(block, size);
    rec_note_event(REC_REALLOC, (uintptr_t)block, size, rec_touched_of(block), false);
    void *moved = rec_next.realloc(block, size);
    if (moved != NULL && size >= REC_LARGE_BLOCK)
        rec_see_large(moved);
    rec_note_event(REC_MOVED, (uintptr_t)moved, 0, 0, false);
    return moved;
}

REC_EXPORT void *realloc(void *block, size_t size)
{
    if (REC_UNLIKELY(rec_is_early(block)))
        return realloc_early(block, size);
    if (!ready())
        return block == NULL ? rec_early_alloc(size, 16) : NULL;
    if (!enter())
        return rec_next.realloc(block, size);
    void *moved = realloc_noted(block, size);
    leave();
    return moved;
}

REC_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

static void *aligned(void *(*next)(size_t, size_t), size_t align, size_t size)
{
    if (!ready())
        return rec_early_alloc(size, align);
    if (next == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return enter() ? noted(REC_ALIGNED, next(align, size), size, log_of(align)) : next(align, size);
}

REC_EXPORT void *memalign(size_t align, size_t size)
{
    return aligned(ready() ? rec_next.memalign : NULL, align, size);
}

REC_EXPORT void *aligned_alloc(size_t align, size_t size)
{
    return aligned(ready() ? rec_next.aligned_alloc : NULL, align, size);
}

REC_EXPORT int posix_memalign(void **block, size_t align, size_t size)
{
    if (!ready() || rec_next.posix_memalign == NULL) {
        void *early = rec_early_alloc(size, align);
        *block = early != NULL ? early : *block;
        return early != NULL ? 0 : ENOMEM;
    }
    if (!enter())
        return rec_next.posix_memalign(block, align, size);
    int error = rec_next.posix_memalign(block, align, size);
    if (error == 0 && *block != NULL)
        rec_note_alloc(REC_ALIGNED, *block, size, log_of(align));
    leave();
    return error;
}

static void *of_pages(void *(*next)(size_t), size_t size, size_t bytes)
{
    if (next == NULL || !enter())
        return next != NULL ? next(size) : rec_early_alloc(bytes, rec_page_size());
    return noted(REC_ALIGNED, next(size), bytes, log_of(rec_page_size()));
}

REC_EXPORT void *valloc(size_t size) { return of_pages(ready() ? rec_next.valloc : NULL, size, size); }

REC_EXPORT void *pvalloc(size_t size)
{
    size_t page = rec_page_size();
    return of_pages(ready() ? rec_next.pvalloc : NULL, size, (size + page - 1) & ~(page - 1));
}

REC_EXPORT size_t malloc_usable_size(void *block)
{
    if (block == NULL)
        return 0;
    if (rec_is_early(block))
        return rec_early_size(block);
    return ready() && rec_next.usable != NULL ? rec_next.usable(block) : 0;
}

REC_EXPORT void _exit(int status)
{
    rec_finish();
    if (ready() && rec_next.leave != NULL)
        rec_next.leave(status);
    for (;;)
        __builtin_trap();
}

REC_EXPORT void _Exit(int status) { _exit(status); }
