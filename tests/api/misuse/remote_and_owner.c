/* A small block that is freed by another thread and then by its owner. The other thread is alive, so its free has not reached the slab. */
#include "remote.h"

int main(void)
{
    void *p = bad(malloc(200));
    freed_by_another(p);
    free(p);
    let_them_end();
    malloc_trim(0);
    return 0;
}
