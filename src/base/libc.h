/* Libc: types of glibc's introspection (mallinfo, mallopt) that musl lacks. HAKMEM exports these functions there too: programs that were
 * built for glibc run on musl by compatibility libraries, and find answers. */
#ifndef HK_LIBC_H
#define HK_LIBC_H

#include <malloc.h>

#ifndef __GLIBC__
#define M_MXFAST 1
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

#endif
