/* A small block freed again by its owner after another thread that freed it has ended: the free has arrived. */
#include "remote.h"

int main(void)
{
    void *p = bad(malloc(200));
    freed_by_another(p);
    let_them_end();
    free(p);
    malloc_trim(0);
    return 0;
}
