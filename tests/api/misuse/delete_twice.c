/* Calls operator delete twice for one block of 64 bytes. HAKMEM finds the mistake when the block returns to its slab. */
#include "misuse.h"

int main(void)
{
    void *p = bad(_Znwm(64));
    _ZdlPv(p);
    _ZdlPv(p);
    malloc_trim(0);
    return 0;
}
