/* Frees a small block, another one, and the first one again, just before the program ends. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(640)), *other = malloc(640);
    free(p);
    free(other);
    free(p);
    return 0;
}
