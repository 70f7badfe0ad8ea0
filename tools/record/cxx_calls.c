/* C++ calls: defines operator new and delete. Each notes the program's call, and passes it on to the operator of the allocator below or of the C++
 * library. If that operator calls malloc, this call is not noted. The file is compiled with -fexceptions, so that bad_alloc passes through. */
#include <errno.h>
#include <stdlib.h>

#include "next.h"
#include "recorder.h"

/* An operator to which calls are passed on. `function` is looked up at the first call. */
struct below {
    const char *name;
    void *function;
};

static struct below delete_one = {.name = "_ZdlPv"}, delete_array = {.name = "_ZdaPv"};
static struct below delete_one_aligned = {.name = "_ZdlPvSt11align_val_t"},
                    delete_array_aligned = {.name = "_ZdaPvSt11align_val_t"};

/* Returns the function of the operator. Ends the program if no library defines the operator, because the call then cannot be passed on. */
static void *look_up(struct below *below)
{
    void *function = __atomic_load_n(&below->function, __ATOMIC_RELAXED);
    if (REC_LIKELY(function != NULL))
        return function;
    bool inside = rec_self.inside;
    rec_self.inside = true;
    function = rec_find_operator(below->name);
    rec_self.inside = inside;
    if (function == NULL) {
        errno = 0;
        rec_say("", "a C++ operator is called, and no C++ library defines it");
        abort();
    }
    __atomic_store_n(&below->function, function, __ATOMIC_RELAXED);
    return function;
}

static void leave(bool *inside) { rec_self.inside = *inside; }

/* Sets rec_self.inside until the end of the scope, even if an exception leaves the scope. `was_inside` is the value before. */
#define ENTER()                                                                                                        \
    __attribute__((cleanup(leave))) bool was_inside = rec_self.inside;                                                 \
    rec_self.inside = true

#define NEW_OPERATOR(symbol, log, parameters, ...)                                                                     \
    REC_EXPORT void *symbol parameters;                                                                                \
    void *symbol parameters                                                                                            \
    {                                                                                                                  \
        static struct below below = {.name = #symbol};                                                                 \
        void *(*next)parameters = (void *(*)parameters)look_up(&below);                                                \
        ENTER();                                                                                                       \
        void *block = next(__VA_ARGS__);                                                                               \
        if (!was_inside && block != NULL)                                                                              \
            rec_note_alloc((log) != 0 ? REC_NEW_ALIGNED : REC_NEW, block, size, log);                                  \
        return block;                                                                                                  \
    }

static inline unsigned log_of(size_t align) { return align < 2 ? 1 : 63 - (unsigned)__builtin_clzll(align); }

NEW_OPERATOR(_Znwm, 0, (size_t size), size)
NEW_OPERATOR(_Znam, 0, (size_t size), size)
NEW_OPERATOR(_ZnwmRKSt9nothrow_t, 0, (size_t size, const void *tag), size, tag)
NEW_OPERATOR(_ZnamRKSt9nothrow_t, 0, (size_t size, const void *tag), size, tag)
NEW_OPERATOR(_ZnwmSt11align_val_t, log_of(align), (size_t size, size_t align), size, align)
NEW_OPERATOR(_ZnamSt11align_val_t, log_of(align), (size_t size, size_t align), size, align)
NEW_OPERATOR(_ZnwmSt11align_val_tRKSt9nothrow_t, log_of(align), (size_t size, size_t align, const void *tag), size,
             align, tag)
NEW_OPERATOR(_ZnamSt11align_val_tRKSt9nothrow_t, log_of(align), (size_t size, size_t align, const void *tag), size,
             align, tag)

/* Notes and passes on a delete. The sized and nothrow forms call the plain operator, too. Only the kind that is noted differs. `align` is 0 for an
 * operator without an alignment. */
static void pass_delete(struct below *below, enum rec_kind kind, void *block, size_t size, size_t align)
{
    if (block == NULL || rec_is_early(block))
        return;
    void *next = look_up(below);
    ENTER();
    if (!was_inside)
        rec_note_free(kind, block, size);
    if (align == 0)
        ((void (*)(void *))next)(block);
    else
        ((void (*)(void *, size_t))next)(block, align);
}

#define TAG __attribute__((unused)) const void *tag
#define DELETE_OPERATOR(symbol, parameters, below, kind, size, align)                                                  \
    REC_EXPORT void symbol parameters;                                                                                 \
    void symbol parameters { pass_delete(&(below), kind, block, size, align); }

DELETE_OPERATOR(_ZdlPv, (void *block), delete_one, REC_DELETE, 0, 0)
DELETE_OPERATOR(_ZdaPv, (void *block), delete_array, REC_DELETE, 0, 0)
DELETE_OPERATOR(_ZdlPvm, (void *block, size_t size), delete_one, REC_DELETE_SIZED, size, 0)
DELETE_OPERATOR(_ZdaPvm, (void *block, size_t size), delete_array, REC_DELETE_SIZED, size, 0)
DELETE_OPERATOR(_ZdlPvRKSt9nothrow_t, (void *block, TAG), delete_one, REC_DELETE, 0, 0)
DELETE_OPERATOR(_ZdaPvRKSt9nothrow_t, (void *block, TAG), delete_array, REC_DELETE, 0, 0)
#define ALIGNED_DELETE_OPERATORS(letter, below)                                                                        \
    DELETE_OPERATOR(_Zd##letter##PvSt11align_val_t, (void *block, size_t align), below, REC_DELETE, 0, align)          \
    DELETE_OPERATOR(_Zd##letter##PvmSt11align_val_t, (void *block, size_t size, size_t align), below,                  \
                    REC_DELETE_SIZED, size, align)                                                                     \
    DELETE_OPERATOR(_Zd##letter##PvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, TAG), below, REC_DELETE, \
                    0, align)
ALIGNED_DELETE_OPERATORS(l, delete_one_aligned)
ALIGNED_DELETE_OPERATORS(a, delete_array_aligned)
