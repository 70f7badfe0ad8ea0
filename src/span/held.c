#include "span/held.h"

#include "os/os.h"

struct hk_held hk_held;

size_t hk_held_look_at_limit(void)
{
    size_t limit = hk_os.address_limit();
    hk_store(hk_held.xscarce, limit != SIZE_MAX);
    return limit;
}
