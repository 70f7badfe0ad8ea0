/* The entry points of Clang's AllocToken (-fsanitize=alloc-token): each allocating function once more, with a number behind its arguments
 * that says of which type, or of which place, the block is. The protection `types` keeps the blocks of one group of such numbers apart from
 * all others; otherwise the number is ignored. Clang spells the operators with one underscore less in some versions.
 * Not here: the names that contain the number (-fsanitize-alloc-token-fast-abi), of which there is one for each number. */
#include <errno.h>
#include <string.h>

#include "api/entry.h"
#include "api/guarded.h"
#include "api/process_new.h"
#include "base/bits.h"
#include "hakmem.h"
#include "runtime/lifecycle.h"
#include "slab/abandoned.h"

#define CALLER __builtin_return_address(0)
/* Reached by their exported names only, which a library without malloc does not have. */
#define OF_TOKENS static __attribute__((unused))

HK_PROCESS(void *, malloc_of_tokens, (size_t size), malloc, hak_malloc)
HK_PROCESS(void *, realloc_of_tokens, (void *block, size_t size), realloc, hak_realloc)

/* Clang's default mode gives types with pointers the upper half of all numbers, and -falloc-token-max=8 the numbers from 4 on: these
 * halves never meet in a group. */
static unsigned group_of(size_t token)
{
    enum { HALF = HK_GROUPS / 2 };
    bool upper = token > SIZE_MAX / 2;
    return 1 + (unsigned)(token < HK_GROUPS ? token : token % HALF + (upper ? HALF : 0));
}

static bool keeps_apart(void) { return HK_UNLIKELY(hk_started() && HK_GUARDS(types)); }

/* False in a program with a malloc of its own, which gets the calls. */
static bool tokens_are_ours(void)
{
    void *(*known)(size_t) = malloc_of_tokens;
    HK_FORGET(known);
    return known == hak_malloc;
}

static bool new_is_ours(void)
{
    void *(*known)(size_t) = process_new;
    HK_FORGET(known);
    return known == hk_operator_new;
}

static void *token_apart(size_t size, size_t align, enum hk_kind kind, size_t token, void *caller)
{
    struct hk_request request = {.size = size, .align = hk_max(align, HK_FINE_STEP), .kind = kind, .caller = caller};
    return hk_guarded_alloc_in(group_of(token), &request);
}

static void *malloc_apart(size_t size, size_t align, size_t token, void *caller)
{
    void *block = token_apart(size, align, HK_KIND_MALLOC, token, caller);
    return HK_LIKELY(block != NULL) ? block : hk_refuse(size);
}

/* NULL: the C library's rules hold for what is no power of two. */
static void *aligned_apart(size_t align, size_t size, size_t token, void *caller)
{
    size_t power = HK_FINE_STEP;
    while (power < align && power < HK_SLICE)
        power *= 2;
    return power >= align ? malloc_apart(size, power, token, caller) : hak_memalign(align, size);
}

OF_TOKENS void *token_malloc(size_t size, size_t token)
{
    if (keeps_apart() && tokens_are_ours())
        return malloc_apart(size, HK_FINE_STEP, token, CALLER);
    return HK_WHOEVER(malloc_of_tokens)(size);
}

OF_TOKENS void *token_calloc(size_t count, size_t size, size_t token)
{
    size_t bytes;
    if (!keeps_apart() || __builtin_mul_overflow(count, size, &bytes))
        return hak_calloc(count, size);
    void *block = malloc_apart(bytes, HK_FINE_STEP, token, CALLER);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

/* A block of another group moves; one that stays in its group may stay where it is. */
OF_TOKENS void *token_realloc(void *block, size_t size, size_t token)
{
    if (!keeps_apart() || !tokens_are_ours() || (block != NULL && size == 0))
        return HK_WHOEVER(realloc_of_tokens)(block, size);
    if (block == NULL)
        return malloc_apart(size, HK_FINE_STEP, token, CALLER);
    if (hk_guarded_group(block) == group_of(token) || size > HK_MEDIUM_MAX)
        return hak_realloc(block, size);
    size_t before = hak_usable_size(block);
    void *to = malloc_apart(size, HK_FINE_STEP, token, CALLER);
    if (to == NULL)
        return NULL;
    memcpy(to, block, hk_min(before, size));
    hak_free(block);
    return to;
}

OF_TOKENS void *token_reallocarray(void *block, size_t count, size_t size, size_t token)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return hk_refuse(SIZE_MAX);
    return token_realloc(block, bytes, token);
}

OF_TOKENS void *token_memalign(size_t align, size_t size, size_t token)
{
    return keeps_apart() ? aligned_apart(align, size, token, CALLER) : hak_memalign(align, size);
}

OF_TOKENS int token_posix_memalign(void **block, size_t align, size_t size, size_t token)
{
    if (!keeps_apart() || align % sizeof(void *) != 0 || !hk_is_pow2(align) || align > HK_SLICE)
        return hak_posix_memalign(block, align, size);
    int saved_errno = errno;
    void *aligned = malloc_apart(size, align, token, CALLER);
    errno = saved_errno;
    if (aligned == NULL)
        return ENOMEM;
    *block = aligned;
    return 0;
}

OF_TOKENS void *token_valloc(size_t size, size_t token)
{
    return keeps_apart() ? aligned_apart(hk_system_page(), size, token, CALLER) : hak_valloc(size);
}

OF_TOKENS void *token_pvalloc(size_t size, size_t token)
{
    if (!keeps_apart() || size > HK_MEDIUM_MAX)
        return hak_pvalloc(size);
    return aligned_apart(hk_system_page(), hk_align_up(hk_max(size, 1), hk_system_page()), token, CALLER);
}

/* Without memory, the form without a token: it knows the program's handler, and throws. */
static void *new_apart(size_t size, size_t align, enum hk_kind kind, size_t token, void *caller)
{
    return keeps_apart() && new_is_ours() ? token_apart(size, align, kind, token, caller) : NULL;
}

#define OPERATOR(own, parameters, align, kind, otherwise)                                                              \
    OF_TOKENS void *own parameters                                                                                     \
    {                                                                                                                  \
        void *block = new_apart(size, align, kind, token, CALLER);                                                     \
        return block != NULL ? block : otherwise;                                                                      \
    }
#define TAG const void *tag
OPERATOR(token_new, (size_t size, size_t token), 0, HK_KIND_NEW, HK_WHOEVER(process_new)(size))
OPERATOR(token_new_array, (size_t size, size_t token), 0, HK_KIND_NEW_ARRAY, HK_WHOEVER(process_new_array)(size))
OPERATOR(token_new_nothrow, (size_t size, TAG, size_t token), 0, HK_KIND_NEW,
         HK_WHOEVER(process_new_nothrow)(size, tag))
OPERATOR(token_new_array_nothrow, (size_t size, TAG, size_t token), 0, HK_KIND_NEW_ARRAY,
         HK_WHOEVER(process_new_array_nothrow)(size, tag))
OPERATOR(token_new_aligned, (size_t size, size_t align, size_t token), align, HK_KIND_NEW,
         HK_WHOEVER(process_new_aligned)(size, align))
OPERATOR(token_new_array_aligned, (size_t size, size_t align, size_t token), align, HK_KIND_NEW_ARRAY,
         HK_WHOEVER(process_new_array_aligned)(size, align))
OPERATOR(token_new_aligned_nothrow, (size_t size, size_t align, TAG, size_t token), align, HK_KIND_NEW,
         HK_WHOEVER(process_new_aligned_nothrow)(size, align, tag))
OPERATOR(token_new_array_aligned_nothrow, (size_t size, size_t align, TAG, size_t token), align, HK_KIND_NEW_ARRAY,
         HK_WHOEVER(process_new_array_aligned_nothrow)(size, align, tag))

#define TOKEN(type, name, parameters, own) HK_REPLACES(type, __alloc_token_##name, parameters, own)
#define BOTH(name, parameters, own) TOKEN(void *, name, parameters, own) TOKEN(void *, _##name, parameters, own)

TOKEN(void *, malloc, (size_t size, size_t token), token_malloc)
TOKEN(void *, calloc, (size_t count, size_t size, size_t token), token_calloc)
TOKEN(void *, realloc, (void *block, size_t size, size_t token), token_realloc)
TOKEN(void *, reallocarray, (void *block, size_t count, size_t size, size_t token), token_reallocarray)
TOKEN(void *, aligned_alloc, (size_t align, size_t size, size_t token), token_memalign)
TOKEN(void *, memalign, (size_t align, size_t size, size_t token), token_memalign)
TOKEN(int, posix_memalign, (void **block, size_t align, size_t size, size_t token), token_posix_memalign)
TOKEN(void *, valloc, (size_t size, size_t token), token_valloc)
TOKEN(void *, pvalloc, (size_t size, size_t token), token_pvalloc)
BOTH(Znwm, (size_t size, size_t token), token_new)
BOTH(Znam, (size_t size, size_t token), token_new_array)
BOTH(ZnwmRKSt9nothrow_t, (size_t size, TAG, size_t token), token_new_nothrow)
BOTH(ZnamRKSt9nothrow_t, (size_t size, TAG, size_t token), token_new_array_nothrow)
BOTH(ZnwmSt11align_val_t, (size_t size, size_t align, size_t token), token_new_aligned)
BOTH(ZnamSt11align_val_t, (size_t size, size_t align, size_t token), token_new_array_aligned)
BOTH(ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, TAG, size_t token), token_new_aligned_nothrow)
BOTH(ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t align, TAG, size_t token), token_new_array_aligned_nothrow)
