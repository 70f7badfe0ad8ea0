/* Defines the functions that programs call if Clang compiled them with -fsanitize=alloc-token. Each allocating function has such a form with one more
 * argument, the token. The token is a number for the type of the block or for the place of the call. The protection `types` keeps the blocks of a
 * group of tokens apart from those of other groups. Without `types`, the token is ignored. Some versions of Clang spell the operators with one
 * underscore less. The functions of -fsanitize-alloc-token-fast-abi are not defined, because each token would need a function of its own. */
#include <errno.h>
#include "api/entry.h"
#include "api/instrumented.h"
#include "api/operators.h"
#include "slab/abandoned.h"

#define TOKEN(type, name, parameters) HK_BY_NAME(type, token_##name, parameters, __alloc_token_##name)

/* Returns the group of a token. No group has both types with pointers and types without pointers. In Clang's default mode, types with pointers have
 * tokens in the upper half of all numbers. With -falloc-token-max=8, they have tokens from 4 on. */
static unsigned group_of(size_t token)
{
    enum { HALF = HK_GROUPS / 2 };
    bool upper = token > SIZE_MAX / 2;
    return 1 + (unsigned)(token < HK_GROUPS ? token : token % HALF + (upper ? HALF : 0));
}

static bool keeps_apart(void) { return HK_UNLIKELY(hk_started() && HK_GUARDS(types)); }

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

/* Returns an aligned block of the token's group. Rounds the alignment up to a power of two like hak_memalign(). */
static void *aligned_apart(size_t align, size_t size, size_t token, void *caller)
{
    return align <= HK_SLICE ? malloc_apart(size, hk_pow2_from(align), token, caller) : hak_memalign(align, size);
}

TOKEN(void *, malloc, (size_t size, size_t token))
{
    if (keeps_apart() && hk_malloc_is_ours()) /* if the program has its own malloc, that one serves the call */
        return malloc_apart(size, HK_FINE_STEP, token, HK_CALLER);
    return HK_WHOEVER(process_malloc)(size);
}

TOKEN(void *, calloc, (size_t count, size_t size, size_t token))
{
    size_t bytes;
    if (!keeps_apart() || __builtin_mul_overflow(count, size, &bytes))
        return hak_calloc(count, size);
    void *block = malloc_apart(bytes, HK_FINE_STEP, token, HK_CALLER);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

TOKEN(void *, realloc, (void *block, size_t size, size_t token))
{
    if (!keeps_apart() || !hk_malloc_is_ours() || (block != NULL && size == 0))
        return HK_WHOEVER(process_realloc)(block, size);
    if (block == NULL)
        return malloc_apart(size, HK_FINE_STEP, token, HK_CALLER);
    if (hk_guarded_group(block) == group_of(token) || size > HK_MEDIUM_MAX)
        return hak_realloc(block, size);
    size_t before = hak_malloc_usable_size(block);
    return hk_move_exactly(malloc_apart(size, HK_FINE_STEP, token, HK_CALLER), block, hk_min(before, size));
}

TOKEN(void *, reallocarray, (void *block, size_t count, size_t size, size_t token))
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? hk_refuse(SIZE_MAX) : token_realloc(block, bytes, token);
}

TOKEN(void *, memalign, (size_t align, size_t size, size_t token))
{
    return keeps_apart() ? aligned_apart(align, size, token, HK_CALLER) : hak_memalign(align, size);
}
HK_REPLACES(void *, __alloc_token_aligned_alloc, (size_t align, size_t size, size_t token), token_memalign)

TOKEN(int, posix_memalign, (void **block, size_t align, size_t size, size_t token))
{
    if (!keeps_apart() || align % sizeof(void *) != 0 || !hk_is_pow2(align) || align > HK_SLICE)
        return hak_posix_memalign(block, align, size);
    int saved_errno = errno;
    void *aligned = malloc_apart(size, align, token, HK_CALLER);
    errno = saved_errno;
    if (aligned == NULL)
        return ENOMEM;
    *block = aligned;
    return 0;
}

TOKEN(void *, valloc, (size_t size, size_t token))
{
    return keeps_apart() ? aligned_apart(hk_system_page(), size, token, HK_CALLER) : hak_valloc(size);
}

TOKEN(void *, pvalloc, (size_t size, size_t token))
{
    if (!keeps_apart() || size > HK_MEDIUM_MAX)
        return hak_pvalloc(size);
    return aligned_apart(hk_system_page(), hk_align_up(hk_max(size, 1), hk_system_page()), token, HK_CALLER);
}

/* Returns a block, or NULL if the token is ignored or memory is refused. If it returns NULL, the caller calls the operator without a token. If memory
 * is refused again, this operator calls the new-handler or throws. */
static void *new_apart(size_t size, size_t align, enum hk_kind kind, size_t token, void *caller)
{
    return keeps_apart() && HK_IS_OURS(process_new, hk_operator_new) ? token_apart(size, align, kind, token, caller)
                                                                     : NULL;
}

#define HK_NEW(form, symbol, parameters, arguments, align, kind, serve)                                                \
    TOKEN(void *, symbol, (HK_IN_LIST parameters, size_t token))                                                       \
    {                                                                                                                  \
        void *block = new_apart(size, align, HK_KIND_##kind, token, HK_CALLER);                                        \
        return block != NULL ? block : HK_WHOEVER(process_##form) arguments;                                           \
    }                                                                                                                  \
    HK_REPLACES(void *, __alloc_token__##symbol, (HK_IN_LIST parameters, size_t token), token_##symbol)
#define HK_DELETE(form, symbol, parameters, serve)
#include "api/operators.def"
