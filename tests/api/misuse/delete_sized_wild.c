/* Calls operator delete with a size for an address where nothing is mapped. */
#include "misuse.h"

int main(void)
{
    _ZdlPvm(bad(at(0x7000deadb000)), 64);
    malloc_trim(0);
    return 0;
}
