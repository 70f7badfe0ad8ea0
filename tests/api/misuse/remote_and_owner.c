/* A small block freed by its owner while the free of another thread, which lives on, is under way. */
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
