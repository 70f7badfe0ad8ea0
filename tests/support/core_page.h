/* core_page: returns the page size that HAKMEM's core uses, which a test build may set to 16 or 64 KiB. */
#ifndef TEST_SUPPORT_CORE_PAGE_H
#define TEST_SUPPORT_CORE_PAGE_H

#include <stddef.h>
#include <unistd.h>

/* Returns the size that a test build gives to the core (HAKMEM_TEST_PAGE), or else the system's. */
static inline size_t core_page(void)
{
#ifdef TEST_PAGE
    return TEST_PAGE;
#else
    return (size_t)sysconf(_SC_PAGESIZE);
#endif
}

#endif
