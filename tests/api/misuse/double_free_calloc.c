/* Frees a small block twice, and then another block of the class. The second calloc after it finds the mistake. */
#include "misuse.h"

int main(void)
{
    void *other = malloc(100), *p = bad(malloc(100));
    free(p);
    free(p);
    free(other);
    for (int i = 0; i < 2; i++)
        if (calloc(1, 100) == NULL)
            return 1;
    _exit(0); /* without the check at exit */
}
