/* The C++ operators as the program calls them: noted once, and passed on to the operators below, which may call malloc in their turn.
 * Compiled with -fexceptions: bad_alloc passes through. */
#include <stdlib.h>
#include <unistd.h>

#include "next.h"
#include "recorder.h"

enum operator_of {
    NEW,
    NEW_ARRAY,
    NEW_NOTHROW,
    NEW_ARRAY_NOTHROW,
    NEW_ALIGNED,
    NEW_ARRAY_ALIGNED,
    NEW_ALIGNED_NOTHROW,
    NEW_ARRAY_ALIGNED_NOTHROW,
    DELETE,
    DELETE_ARRAY,
    DELETE_ALIGNED,
    DELETE_ARRAY_ALIGNED,
    OPERATORS
};

static const char *const names[OPERATORS] = {"_Znwm",
                                             "_Znam",
                                             "_ZnwmRKSt9nothrow_t",
                                             "_ZnamRKSt9nothrow_t",
                                             "_ZnwmSt11align_val_t",
                                             "_ZnamSt11align_val_t",
                                             "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                             "_ZnamSt11align_val_tRKSt9nothrow_t",
                                             "_ZdlPv",
                                             "_ZdaPv",
                                             "_ZdlPvSt11align_val_t",
                                             "_ZdaPvSt11align_val_t"};

static void *found[OPERATORS];

/* A program that calls an operator has a C++ library, or an allocator that defines the operators. */
static void *below(enum operator_of which)
{
    void *function = __atomic_load_n(&found[which], __ATOMIC_RELAXED);
    if (REC_LIKELY(function != NULL))
        return function;
    bool inside = rec_self.inside;
    rec_self.inside = true;
    function = rec_find_operator(names[which]);
    rec_self.inside = inside;
    if (function == NULL) {
        static const char line[] = "hakmem record: a C++ operator is called, and no C++ library defines it\n";
        if (write(STDERR_FILENO, line, sizeof line - 1) >= 0)
            abort();
        abort();
    }
    __atomic_store_n(&found[which], function, __ATOMIC_RELAXED);
    return function;
}

static void leave(bool *inside) { rec_self.inside = *inside; }

/* Noted, and inside until the end of the scope, also if an exception ends it. */
#define ENTER()                                                                                                        \
    __attribute__((cleanup(leave))) bool was_inside = rec_self.inside;                                                 \
    rec_self.inside = true

#define NEW_OPERATOR(symbol, which, log, parameters, ...)                                                              \
    REC_EXPORT void *symbol parameters;                                                                                \
    void *symbol parameters                                                                                            \
    {                                                                                                                  \
        void *(*next)parameters = (void *(*)parameters)below(which);                                                   \
        ENTER();                                                                                                       \
        void *block = next(__VA_ARGS__);                                                                               \
        if (!was_inside && block != NULL)                                                                              \
            rec_note_alloc((log) != 0 ? REC_NEW_ALIGNED : REC_NEW, block, size, log);                                  \
        return block;                                                                                                  \
    }

static inline unsigned log_of(size_t align) { return align < 2 ? 1 : 63 - (unsigned)__builtin_clzll(align); }

NEW_OPERATOR(_Znwm, NEW, 0, (size_t size), size)
NEW_OPERATOR(_Znam, NEW_ARRAY, 0, (size_t size), size)
NEW_OPERATOR(_ZnwmRKSt9nothrow_t, NEW_NOTHROW, 0, (size_t size, const void *tag), size, tag)
NEW_OPERATOR(_ZnamRKSt9nothrow_t, NEW_ARRAY_NOTHROW, 0, (size_t size, const void *tag), size, tag)
NEW_OPERATOR(_ZnwmSt11align_val_t, NEW_ALIGNED, log_of(align), (size_t size, size_t align), size, align)
NEW_OPERATOR(_ZnamSt11align_val_t, NEW_ARRAY_ALIGNED, log_of(align), (size_t size, size_t align), size, align)
NEW_OPERATOR(_ZnwmSt11align_val_tRKSt9nothrow_t, NEW_ALIGNED_NOTHROW, log_of(align),
             (size_t size, size_t align, const void *tag), size, align, tag)
NEW_OPERATOR(_ZnamSt11align_val_tRKSt9nothrow_t, NEW_ARRAY_ALIGNED_NOTHROW, log_of(align),
             (size_t size, size_t align, const void *tag), size, align, tag)

/* The sized and the nothrow forms do what the plain ones do; only the record tells them apart. */
static void delete_plain(enum operator_of which, enum rec_kind kind, void *block, size_t size)
{
    if (block == NULL || rec_is_early(block))
        return;
    void (*next)(void *) = (void (*)(void *))below(which);
    ENTER();
    if (!was_inside)
        rec_note_free(kind, block, size);
    next(block);
}

static void delete_aligned(enum operator_of which, enum rec_kind kind, void *block, size_t size, size_t align)
{
    if (block == NULL || rec_is_early(block))
        return;
    void (*next)(void *, size_t) = (void (*)(void *, size_t))below(which);
    ENTER();
    if (!was_inside)
        rec_note_free(kind, block, size);
    next(block, align);
}

#define DELETE_OPERATOR(symbol, parameters, call)                                                                      \
    REC_EXPORT void symbol parameters;                                                                                 \
    void symbol parameters { call; }

DELETE_OPERATOR(_ZdlPv, (void *block), delete_plain(DELETE, REC_DELETE, block, 0))
DELETE_OPERATOR(_ZdaPv, (void *block), delete_plain(DELETE_ARRAY, REC_DELETE, block, 0))
DELETE_OPERATOR(_ZdlPvm, (void *block, size_t size), delete_plain(DELETE, REC_DELETE_SIZED, block, size))
DELETE_OPERATOR(_ZdaPvm, (void *block, size_t size), delete_plain(DELETE_ARRAY, REC_DELETE_SIZED, block, size))
DELETE_OPERATOR(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (void)tag;
                delete_plain(DELETE, REC_DELETE, block, 0))
DELETE_OPERATOR(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (void)tag;
                delete_plain(DELETE_ARRAY, REC_DELETE, block, 0))
DELETE_OPERATOR(_ZdlPvSt11align_val_t, (void *block, size_t align),
                delete_aligned(DELETE_ALIGNED, REC_DELETE, block, 0, align))
DELETE_OPERATOR(_ZdaPvSt11align_val_t, (void *block, size_t align),
                delete_aligned(DELETE_ARRAY_ALIGNED, REC_DELETE, block, 0, align))
DELETE_OPERATOR(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t align),
                delete_aligned(DELETE_ALIGNED, REC_DELETE_SIZED, block, size, align))
DELETE_OPERATOR(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t align),
                delete_aligned(DELETE_ARRAY_ALIGNED, REC_DELETE_SIZED, block, size, align))
DELETE_OPERATOR(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, const void *tag), (void)tag;
                delete_aligned(DELETE_ALIGNED, REC_DELETE, block, 0, align))
DELETE_OPERATOR(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, const void *tag), (void)tag;
                delete_aligned(DELETE_ARRAY_ALIGNED, REC_DELETE, block, 0, align))
