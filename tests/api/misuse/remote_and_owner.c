/* Frees a small block in another thread, and then in the thread that owns it. The other thread is alive, so its free has not reached the slab. */
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
