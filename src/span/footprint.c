/* Holds the counts of bytes that may be resident, reads the limit of the address space (RLIMIT_AS), and counts refusals of memory. */
#include "span/footprint.h"
#include "count/stats.h"
#include "os/os.h"

struct hk_footprint hk_footprint;

size_t hk_footprint_read_limit(void)
{
    size_t limit = hk_os.address_limit();
    hk_store(hk_footprint.xscarce, limit != SIZE_MAX);
    return limit;
}

void hk_footprint_refused(bool by_limit)
{
    HK_COUNT(limit_refusals, by_limit);
    HK_COUNT(os_refusals, !by_limit);
    hk_store(hk_footprint.xby_limit, by_limit);
}
