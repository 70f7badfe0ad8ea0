/* procinfo: reads the kernel's figures about this process without allocating. */
#ifndef TEST_SUPPORT_PROCINFO_H
#define TEST_SUPPORT_PROCINFO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t procinfo_rss_kib(void); /* exact resident set */
size_t procinfo_of_ended_kib(
    size_t threads);              /* the part of it that an emulator keeps for ended threads; 0 without an emulator */
size_t procinfo_vmsize_kib(void); /* address space as RLIMIT_AS counts it */
size_t procinfo_locked_kib(void); /* memory locked by mlock */
size_t procinfo_tables_kib(void); /* page tables */
size_t procinfo_mappings(void);   /* lines of /proc/self/maps */

/* Returns the address space that does not belong to the allocator: files, stacks and the vdso. The rest of a limit is what an allocator can use,
 * whatever it reserved before main. */
size_t procinfo_not_heap_kib(void);

size_t procinfo_max_map_count(void);

/* From now on the process gets no huge pages, because one page of 2 MiB more or less would decide the result of a test of small amounts. */
bool procinfo_forbid_huge_pages(void);

#ifdef __cplusplus
}
#endif
#endif
