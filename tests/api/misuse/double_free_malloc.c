/* Frees a small block twice. The next malloc of the class finds the mistake, although the thread freed another block of the class before. */
#include "misuse.h"

int main(void)
{
    void *other = malloc(100), *p = bad(malloc(100));
    free(other);
    free(p);
    free(p);
    free(malloc(100));
    _exit(0); /* without the check at exit */
}
