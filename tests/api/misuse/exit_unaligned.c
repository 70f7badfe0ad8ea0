/* Frees a pointer that no block can have, just before the program ends. */
#include "misuse.h"

int main(void)
{
    free(bad(inside(malloc(640), 8)));
    return 0;
}
