#include "count/reuse.h"

struct hk_reuse hk_reuse;

void hk_reuse_back(uint64_t idle_ms, size_t bytes)
{
    unsigned span = 0;
    while (span < HK_REUSE_SPANS - 1 && idle_ms > hk_reuse_span_ms(span))
        span++;
    hk_add(hk_reuse.xback[span], bytes);
}
