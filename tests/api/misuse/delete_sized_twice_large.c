/* Calls operator delete with a size twice for one block of 100 KiB. */
#include "misuse.h"

int main(void)
{
    void *p = bad(_Znwm(100 * KIB));
    _ZdlPvm(p, 100 * KIB);
    _ZdlPvm(p, 100 * KIB);
    return 0;
}
