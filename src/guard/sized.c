#include "guard/sized.h"

#include "base/bits.h"
#include "big/big.h"
#include "slab/live.h"

static size_t size_of(const void *block, uint32_t entry)
{
    return hk_entry_class(entry) == HK_CLASS_BIG ? hk_big_at((uintptr_t)block)->requested
                                                 : hk_classes[hk_entry_class(entry)].size;
}

/* For some alignment from `align` on: code of C++14 knows no other form for what code of C++17 has aligned. */
static bool is_class_for(const void *block, uint32_t entry, size_t size, size_t align)
{
    unsigned class = hk_entry_class(entry);
    if (class == HK_CLASS_BIG)
        return size_of(block, entry) == hk_big_bytes_for(size);
    while (align < HK_SLICE && hk_class_of_aligned(size, align) < class)
        align *= 2;
    return size <= HK_LARGE_MAX && hk_class_of_aligned(size, align) == class;
}

bool hk_sized_fits(const void *block, uint32_t entry, size_t size, bool resizes)
{
    if (entry == 0 || hk_entry_is_mixed(entry))
        return true;
    return resizes ? size <= size_of(block, entry) : is_class_for(block, entry, size, HK_FINE_STEP);
}

void hk_sized_check(enum hk_call call, const void *block, uint32_t entry, size_t size)
{
    if (HK_UNLIKELY(!hk_sized_fits(block, entry, size, call != HK_CALL_DELETE_SIZED)))
        hk_invalid_size(call, size, block);
}

void hk_sized_check_aligned(const void *block, size_t size, size_t align)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (entry != 0 && hk_entry_class(entry) == HK_CLASS_BIG)
        hk_big_check(HK_CALL_DELETE_SIZED, block);
    else if (hk_entry_is_large(entry))
        hk_live_check(HK_CALL_DELETE_SIZED, block);
    else
        return;
    if (HK_UNLIKELY(!is_class_for(block, entry, size, hk_max(align, HK_FINE_STEP))))
        hk_invalid_size(HK_CALL_DELETE_SIZED, size, block);
}
