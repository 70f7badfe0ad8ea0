/* Makes functions from the table in kinds.def. They use switches, because arrays of functions would have to be relocated before the first call. */
#include "api/kinds.h"
#include "api/entry.h"
#include "api/plain_alloc.h"
#include "guard/block_checks.h"
#include "guard/sampled.h"
#include "prof/attach_sampling.h"
#include "slab/joined_blocks.h"
#include "span/bootstrap.h"

enum { CHECK_NONE, CHECK_SELF, CHECK_MARK, CHECK_START };

enum hk_block_kind hk_block_kind_of(const void *block, uint32_t entry)
{
#define HK_BLOCK(kind, condition, check, bytes, resize, free)                                                          \
    if (condition)                                                                                                     \
        return HK_BLOCK_##kind;
#include "api/kinds.def"
}

static const struct {
    uint8_t check, resize;
} kinds[] = {
#define HK_BLOCK(kind, condition, check, bytes, resize, free) {CHECK_##check, HK_RESIZE_##resize},
#include "api/kinds.def"
};

enum hk_block_resize hk_block_resize_of(enum hk_block_kind of) { return (enum hk_block_resize)kinds[of].resize; }

size_t hk_block_size(enum hk_call call, const void *block, uint32_t entry, enum hk_block_kind of)
{
    if (kinds[of].check == CHECK_MARK)
        hk_mark_check(call, block);
    else if (kinds[of].check == CHECK_START && hk_large_at((uintptr_t)block)->d.start != (uintptr_t)block)
        hk_invalid_pointer(call, HK_TEXT_inside, block);
    switch (of) {
#define HK_BLOCK(kind, condition, check, bytes, resize, free)                                                          \
    case HK_BLOCK_##kind:                                                                                              \
        return bytes;
#include "api/kinds.def"
#undef HK_BLOCK /* keeps clang-format from joining the lines before and after */
    }
    __builtin_unreachable();
}

void hk_block_check_free(enum hk_call call, const void *block, uint32_t entry, enum hk_block_kind of, size_t size)
{
    if (kinds[of].check == CHECK_MARK)
        hk_mark_end(call, block);
    else if (kinds[of].check == CHECK_START && call != HK_CALL_FREE) /* for free(), hk_large_free() makes this check */
        hk_large_check(call, block);
    if (size != HK_SIZE_UNKNOWN)
        hk_sized_check(call, block, entry, size);
}

void hk_block_free(enum hk_call call, void *block, uint32_t entry, enum hk_block_kind of, void *caller)
{
    switch (of) {
#define HK_BLOCK(kind, condition, check, bytes, resize, free)                                                          \
    case HK_BLOCK_##kind:                                                                                              \
        free;                                                                                                          \
        break;
#include "api/kinds.def"
    }
}
