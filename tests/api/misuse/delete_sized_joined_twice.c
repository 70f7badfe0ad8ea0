/* Calls operator delete with a size twice for a joined block. */
#include "joined_block.h"

int main(void)
{
    void *p = bad(a_joined());
    _ZdlPvm(p, JOINED_SIZE);
    _ZdlPvm(p, JOINED_SIZE);
    malloc_trim(0);
    return 0;
}
