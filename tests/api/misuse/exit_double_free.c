/* A small block freed twice by a program that ends then: the exit flush finds it. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(64));
    free(p);
    free(p);
    return 0;
}
