/* core_page: tells the size of a page of the system that the core uses. */
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
