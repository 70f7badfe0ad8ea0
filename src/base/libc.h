/* Libc: types of glibc's introspection (mallinfo, mallopt) that musl lacks, and mallinfo2 that glibc before 2.33 lacks. HAKMEM exports these
 * functions there too, because a program may be built for a newer glibc, or run on musl by compatibility libraries. */
#ifndef HK_LIBC_H
#define HK_LIBC_H

/* Gives mallinfo2 another name in the header, because the header may declare it, and no macro tells whether it does. */
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

#endif
