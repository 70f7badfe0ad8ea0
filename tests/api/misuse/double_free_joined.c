/* Frees a joined block twice. */
#include "joined_block.h"

int main(void)
{
    void *p = bad(a_joined());
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
