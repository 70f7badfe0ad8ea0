/* operator delete of a joined block, with its size, twice. */
#include "joined_block.h"

int main(void)
{
    void *p = bad(a_joined());
    _ZdlPvm(p, JOINED_SIZE);
    _ZdlPvm(p, JOINED_SIZE);
    malloc_trim(0);
    return 0;
}
