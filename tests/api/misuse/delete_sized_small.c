/* Calls operator delete for a small block with the size of another class, while the bin is full. */
#include "misuse.h"

int main(void)
{
    void *p = _Znwm(64), *q = bad(_Znwm(64));
    _ZdlPvm(p, 64);
    _ZdlPvm(q, 640);
    return 0;
}
