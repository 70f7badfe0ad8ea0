/* Calls operator delete twice for one block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    void *p = bad(_Znwm(100 * KIB));
    _ZdlPv(p);
    _ZdlPv(p);
    return 0;
}
