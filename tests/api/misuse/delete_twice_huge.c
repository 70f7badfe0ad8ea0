/* Calls operator delete twice for one block of 5 MiB. */
#include "misuse.h"

int main(void)
{
    void *p = bad(_Znwm(5 * MIB));
    _ZdlPv(p);
    _ZdlPv(p);
    malloc_trim(0);
    return 0;
}
