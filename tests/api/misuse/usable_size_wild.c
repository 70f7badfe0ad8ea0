/* Calls malloc_usable_size for an address where nothing is mapped. */
#include "misuse.h"

int main(void) { return malloc_usable_size(bad(at(0x123456789000))) == 0; }
