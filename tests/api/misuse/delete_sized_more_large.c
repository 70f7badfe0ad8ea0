/* Calls operator delete for a block of 100 KiB, with twice its size. */
#include "misuse.h"

int main(void)
{
    _ZdlPvm(bad(_Znwm(100 * KIB)), 200 * KIB);
    return 0;
}
