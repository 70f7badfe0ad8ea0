/* Frees a small block in two threads that did not allocate it. Both threads stay alive, so the block waits in two outboxes. */
#include "remote.h"

int main(void)
{
    void *p = bad(malloc(200));
    freed_by_another(p);
    freed_by_another(p);
    let_them_end();
    malloc_trim(0);
    return 0;
}
