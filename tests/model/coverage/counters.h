/* In a coverage build each file of the core includes this header first. So a program that takes a file of the core from the archive also takes
 * counters.c, and calls coverage_begin() before main. */
#ifndef TESTS_COVERAGE_COUNTERS_H
#define TESTS_COVERAGE_COUNTERS_H

__attribute__((visibility("hidden"))) void coverage_begin(void);
__attribute__((constructor(101))) static void coverage_of_file(void) { coverage_begin(); }

#endif
