/* Calls operator delete for a pointer one page into a block of 5 MiB. */
#include "misuse.h"

int main(void)
{
    _ZdlPv(bad(inside(_Znwm(5 * MIB), 4096)));
    malloc_trim(0);
    return 0;
}
