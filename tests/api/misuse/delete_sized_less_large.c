/* operator delete of a block of 100 KiB with the size of another class, as for a base class without a virtual destructor. */
#include "misuse.h"

int main(void)
{
    _ZdlPvm(bad(_Znwm(100 * KIB)), 72);
    return 0;
}
