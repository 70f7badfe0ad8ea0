/* Frees the highest address. */
#include "misuse.h"

int main(void)
{
    free(bad(at(UINTPTR_MAX - 15)));
    malloc_trim(0);
    return 0;
}
