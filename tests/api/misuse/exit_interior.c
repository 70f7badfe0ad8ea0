/* Frees a pointer into a small block just before the program ends. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(640), 16)));
    return 0;
}
