/* Frees a static object. */
#include "misuse.h"

static char object[256];

int main(void)
{
    free(bad(object));
    malloc_trim(0);
    return 0;
}
