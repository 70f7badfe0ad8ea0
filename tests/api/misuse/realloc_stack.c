/* Calls realloc for an object on the stack. */
#include "misuse.h"

int main(void)
{
    char local[64];
    free(realloc(bad(local), 100));
    malloc_trim(0);
    return 0;
}
