/* operator delete, with the size, of a block that lies between smaller ones, twice. */
#include "lodger.h"

int main(void)
{
    void *p = bad(a_lodger());
    _ZdlPvm(p, LODGER_SIZE);
    _ZdlPvm(p, LODGER_SIZE);
    malloc_trim(0);
    return 0;
}
