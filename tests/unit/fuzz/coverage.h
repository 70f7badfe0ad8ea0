/* Coverage: records which places of the core an input has reached. The compiler inserts the calls that record places
 * (-fsanitize-coverage=trace-pc of gcc and clang). In a build without these calls, no input is new. Forked children share the record. */
#ifndef TEST_FUZZ_COVERAGE_H
#define TEST_FUZZ_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COVERAGE_PLACES = 1 << 16 };

void coverage_begin(void);
void coverage_clear(void);
/* Returns true if the input reached a place that no input before it reached. If `counts` is true, reaching a known place with a new order of
 * magnitude of calls is enough too. */
bool coverage_is_new(bool counts);
/* Returns the number of places that all inputs have reached so far. */
size_t coverage_total(void);

#endif
