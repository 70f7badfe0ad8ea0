/* Frees a small block twice just before the program ends. The flush at exit finds the mistake. */
#include "misuse.h"

int main(void)
{
    void *p = bad(malloc(64));
    free(p);
    free(p);
    return 0;
}
