/* procinfo: reads the kernel's figures about this process without allocating. */
#ifndef TEST_SUPPORT_PROCINFO_H
#define TEST_SUPPORT_PROCINFO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t procinfo_rss_kib(void);                /* exact resident set */
size_t procinfo_of_ended_kib(size_t threads); /* RSS that an emulator keeps for ended threads; otherwise 0 */
size_t procinfo_vmsize_kib(void);             /* address space that RLIMIT_AS limits */
size_t procinfo_locked_kib(void);             /* memory locked by mlock */
size_t procinfo_tables_kib(void);             /* page tables */
size_t procinfo_mappings(void);               /* lines of /proc/self/maps */

/* Returns the address space that does not belong to the allocator: files, stacks and the vdso. An allocator can use the remaining part of a
 * limit, whatever it has reserved before main. */
size_t procinfo_not_heap_kib(void);

size_t procinfo_max_map_count(void);

/* Forbids huge pages in this process, because a single page of 2 MiB would decide the result of a test of small amounts. */
bool procinfo_forbid_huge_pages(void);

#ifdef __cplusplus
}
#endif
#endif
