/* What build.rs compiles: HAKMEM in one object, so that a program which uses one of its functions gets them all.
 * HAKMEM_IS_HARDENED: all protections unless HAKMEM_HARDENED=0, as in libhakmem-hardened.so, but memcpy and its kin are the C library's.
 * HAKMEM_COUNTS_THREADS: pthread_create is HAKMEM's too (hak_pthread_create in hakmem.h), as in libhakmem.so. */
#define HK_UNITY 1
#include "base/base.h"
#ifdef HAKMEM_IS_HARDENED
#undef HK_HARDENED_LIBRARY
#define HK_HARDENED_LIBRARY 1
#endif
#include "hakmem.c"

#ifdef HAKMEM_COUNTS_THREADS
/* One function by two names: hak_pthread_create knows by its address that it stands before the C library's. */
__attribute__((visibility("default"), alias("hak_pthread_create"))) int
pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *), void *restrict argument);
#endif
