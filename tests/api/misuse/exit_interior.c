/* A pointer into a small block, freed by a program that ends then. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(640), 16)));
    return 0;
}
