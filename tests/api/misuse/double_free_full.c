/* A small block that is freed again while it is the newest one in a full bin. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(64));
    free(p);
    free(p);
    return 0;
}
