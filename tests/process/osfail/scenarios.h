/* A scenario is a program of a few lines. It must survive any refusal of the system, and leak nothing. */
#ifndef TEST_OSFAIL_SCENARIOS_H
#define TEST_OSFAIL_SCENARIOS_H

#include <stddef.h>

struct scenario {
    const char *name;
    void (*run)(size_t size, size_t count);
    size_t size, count;   /* each `run` function gives them a meaning */
    size_t address_limit; /* RLIMIT_AS of the process; 0 means none */
    size_t large_cache;   /* value of the option; 0 means its default */
};

extern const struct scenario scenarios_blocks[], scenarios_resize[], scenarios_threads[], scenarios_heap[],
    scenarios_own_heaps[];

#endif
