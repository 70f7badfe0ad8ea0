/* Libc: defines the types and constants of mallinfo and mallopt, which musl lacks, and of mallinfo2, which glibc before 2.33 lacks. HAKMEM exports
 * these functions with every C library, because a program may have been built for a newer glibc, or may run on musl with a compatibility library. */
#pragma once

/* Renames mallinfo2 of <malloc.h>. This file defines the struct mallinfo2 itself, because no macro tells whether <malloc.h> defines it. */
#define mallinfo2 hk_mallinfo2_of_libc
#include <malloc.h>
#undef mallinfo2

#ifndef __GLIBC__
#define M_MXFAST 1
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
