#include "guard/guard.h"

struct hk_guard hk_guard HK_ALIGNED(HK_CACHE_LINE);

void hk_guard_take_hooks(void)
{
    hk_guard.small = 0;
    hk_guard.frees_plainly = false;
}
