/* The last address there is. */
#include "misuse.h"

int main(void)
{
    free(bad(at(UINTPTR_MAX - 15)));
    malloc_trim(0);
    return 0;
}
