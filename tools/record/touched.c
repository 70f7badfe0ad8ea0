/* Touched: counts the pages of a large block that the program has touched. These are the pages that are resident when the block is freed. */
#include <errno.h>
#include <sys/mman.h>

#include "next.h"
#include "recorder.h"

enum { PAGES_AT_ONCE = 2048 };

/* Returns the number of resident units (REC_PAGE) in a range, or UINT32_MAX if the kernel refuses. Anonymous pages are resident only after they were
 * touched. A page also counts if it was touched only when it belonged to an earlier block. */
static uint32_t resident_pages(uintptr_t from, uintptr_t to, size_t page)
{
    unsigned char seen[PAGES_AT_ONCE];
    uint32_t count = 0;
    for (size_t most = PAGES_AT_ONCE * page; from < to; from += most) {
        size_t bytes = to - from < most ? to - from : most;
        if (mincore((void *)from, bytes, seen) != 0)
            return UINT32_MAX;
        for (size_t i = 0; i < bytes / page; i++)
            count += seen[i] & 1;
    }
    return count * (uint32_t)(page / REC_PAGE);
}

REC_COLD uint32_t rec_touched(const void *block)
{
    size_t usable = rec_next.usable != NULL ? rec_next.usable((void *)(uintptr_t)block) : 0;
    if (usable < REC_LARGE_BLOCK)
        return 0;
    int error = errno;
    size_t page = rec_page_size();
    uintptr_t from = (uintptr_t)block & ~(page - 1);
    uintptr_t to = ((uintptr_t)block + usable + page - 1) & ~(page - 1);
    uint32_t pages = resident_pages(from, to, page);
    errno = error;
    return pages == UINT32_MAX ? 0 : pages + 1;
}

REC_COLD bool rec_always(const void *block)
{
    return rec_next.usable != NULL && rec_next.usable((void *)(uintptr_t)block) >= REC_ALWAYS_FROM;
}
