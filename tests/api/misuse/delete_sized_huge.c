/* Calls operator delete for a block of 3 MiB, with a size of 2 MiB. */
#include "misuse.h"

int main(void)
{
    _ZdlPvm(bad(_Znwm(3 * MIB)), 2 * MIB);
    return 0;
}
