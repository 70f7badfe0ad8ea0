/* procinfo: the kernel's figures about this process, read without allocating. */
#ifndef TEST_SUPPORT_PROCINFO_H
#define TEST_SUPPORT_PROCINFO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t procinfo_rss_kib(void);                /* resident set now, exactly */
size_t procinfo_of_ended_kib(size_t threads); /* what of that an emulator keeps for threads that ended; else 0 */
size_t procinfo_vmsize_kib(void);             /* address space as RLIMIT_AS counts it */
size_t procinfo_locked_kib(void);             /* in memory for good, by mlock */
size_t procinfo_tables_kib(void);             /* page tables */
size_t procinfo_mappings(void);               /* lines of /proc/self/maps */

/* Address space that is not the allocator's: files, stack, vdso.  What is left of a limit after this is what an
 * allocator has to work with, whatever it reserved before main. */
size_t procinfo_not_heap_kib(void);

size_t procinfo_max_map_count(void);

/* From now on the process gets no huge page: one of 2 MiB more or less decides what a test of small amounts finds. */
bool procinfo_forbid_huge_pages(void);

#ifdef __cplusplus
}
#endif
#endif
