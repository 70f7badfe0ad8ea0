/* Coverage: which places of the core an input has reached, by calls that the compiler inserts (-fsanitize-coverage=trace-pc, gcc and
 * clang). In a build without them, no input is new.
 * The map is shared with forked children. */
#ifndef TEST_FUZZ_COVERAGE_H
#define TEST_FUZZ_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COVERAGE_PLACES = 1 << 16 };

void coverage_begin(void);
/* Before an input. */
void coverage_clear(void);
/* After it: true if it came to a place, or, where counts count, to one about as often, as no input before it. */
bool coverage_is_new(bool counts);
/* Places reached by all inputs so far. */
size_t coverage_total(void);

#endif
