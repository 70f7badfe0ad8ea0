/* Calls operator delete for a pointer into a block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    _ZdlPv(bad(inside(_Znwm(100 * KIB), 4 * KIB)));
    return 0;
}
