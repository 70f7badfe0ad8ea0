/* Calls operator delete[] for a block of 100 KiB, with half its size. */
#include "misuse.h"

int main(void)
{
    _ZdaPvm(bad(_Znam(100 * KIB)), 50 * KIB);
    return 0;
}
