/* Calls malloc_usable_size for a pointer one page into a block of 5 MiB. */
#include "misuse.h"

int main(void) { return malloc_usable_size(bad(inside(malloc(5 * MIB), 4096))) == 0; }
