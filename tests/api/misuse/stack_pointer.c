/* Frees an object on the stack. */
#include "misuse.h"

int main(void)
{
    char local[64];
    free(bad(local));
    malloc_trim(0);
    return 0;
}
