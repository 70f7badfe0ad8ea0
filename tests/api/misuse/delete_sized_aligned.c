/* Calls operator delete for an aligned block of 100 KiB, with a size of 200 KiB. */
#include "misuse.h"

int main(void)
{
    _ZdlPvmSt11align_val_t(bad(_ZnwmSt11align_val_t(100 * KIB, 4 * KIB)), 200 * KIB, 4 * KIB);
    return 0;
}
