/* The functions that the core calls in place of the C library's functions of these names, in a build with larger pages. */
#ifndef TEST_COARSE_PAGES_H
#define TEST_COARSE_PAGES_H

#include <stddef.h>
#include <sys/types.h>

void *coarse_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset);
int coarse_munmap(void *p, size_t size);
void *coarse_mremap(void *p, size_t before, size_t size, int flags, ...);
int coarse_mincore(void *p, size_t size, unsigned char *pages);
long coarse_syscall(long number, ...);
unsigned long coarse_getauxval(unsigned long type);

#endif
