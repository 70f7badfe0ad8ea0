/* Frees a small block again while it is the newest block in a full bin. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(64));
    free(p);
    free(p);
    return 0;
}
