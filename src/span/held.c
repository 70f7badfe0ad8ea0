#include "span/held.h"

#include "count/stats.h"
#include "os/os.h"

struct hk_held hk_held;

size_t hk_held_look_at_limit(void)
{
    size_t limit = hk_os.address_limit();
    hk_store(hk_held.xscarce, limit != SIZE_MAX);
    return limit;
}

void hk_held_refused(bool by_limit)
{
    if (by_limit)
        HK_COUNT(limit_refusals, 1);
    else
        HK_COUNT(os_refusals, 1);
    hk_store(hk_held.xby_limit, by_limit);
}
