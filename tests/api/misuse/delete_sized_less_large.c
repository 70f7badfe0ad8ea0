/* Calls operator delete for a block of 100 KiB with the size of a smaller class, as happens with a base class that has no virtual destructor. */
#include "misuse.h"

int main(void)
{
    _ZdlPvm(bad(_Znwm(100 * KIB)), 72);
    return 0;
}
