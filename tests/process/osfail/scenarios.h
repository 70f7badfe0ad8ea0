/* Scenarios: programs of a few lines. Each must survive any refusal of the system, and leak nothing. */
#ifndef TEST_OSFAIL_SCENARIOS_H
#define TEST_OSFAIL_SCENARIOS_H

#include <stddef.h>

struct scenario {
    const char *name;
    void (*run)(size_t size, size_t count);
    size_t size, count;   /* the function defines their meaning */
    size_t address_limit; /* RLIMIT_AS of the process; 0: none */
    size_t large_cache;   /* the option; 0: its default */
};

extern const struct scenario scenarios_blocks[], scenarios_resize[], scenarios_threads[], scenarios_heap[],
    scenarios_own_heaps[];

#endif
