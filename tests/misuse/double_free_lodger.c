/* A block that lies between smaller ones freed twice. */
#include "lodger.h"

int main(void)
{
    void *p = bad(a_lodger());
    free(p);
    free(p);
    malloc_trim(0);
    return 0;
}
