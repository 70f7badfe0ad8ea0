/* Frees a small block in another thread, and then in the thread that owns it. The other thread has ended, so its free has reached the slab. */
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
