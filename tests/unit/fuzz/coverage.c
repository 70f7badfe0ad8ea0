#include "unit/fuzz/coverage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* libFuzzer reads the counters in this section in addition to its own. */
static uint8_t counters[COVERAGE_PLACES] __attribute__((section("__libfuzzer_extra_counters"), aligned(4096)));
static uint8_t seen[COVERAGE_PLACES]; /* one bit for each order of magnitude of a count */

void coverage_begin(void)
{
    if (mmap(counters, sizeof counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        abort();
}

/* libFuzzer has a function with the compiler's name, so the build for libFuzzer gives this function another name and lets the linker use it. */
#ifndef COVERAGE_HOOK
#define COVERAGE_HOOK __sanitizer_cov_trace_pc
#endif

/* Counts a call. The compiler inserts a call of this function at each place of the code. If several threads call it at once, some counts may get
 * lost. */
void COVERAGE_HOOK(void);
void COVERAGE_HOOK(void)
{
    uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&coverage_begin;
    uint8_t *counter = &counters[(place ^ place >> 16) % COVERAGE_PLACES];
    *counter = (uint8_t)(*counter + (*counter < UINT8_MAX));
}

void coverage_clear(void) { memset(counters, 0, sizeof counters); }

static uint8_t magnitude(uint8_t count)
{
    static const uint8_t from[] = {128, 32, 16, 8, 4, 3, 2, 1};
    unsigned i = 0;
    while (count < from[i])
        i++;
    return (uint8_t)(1 << i);
}

bool coverage_is_new(bool counts)
{
    bool any = false;
    for (size_t i = 0; i < COVERAGE_PLACES; i += 8) {
        uint64_t eight;
        memcpy(&eight, counters + i, sizeof eight);
        for (size_t j = i; eight != 0 && j < i + 8; j++) {
            uint8_t found = counters[j] == 0 ? 0 : counts ? magnitude(counters[j]) : 1;
            any |= (found & ~seen[j]) != 0;
            seen[j] |= found;
        }
    }
    return any;
}

size_t coverage_total(void)
{
    size_t total = 0;
    for (size_t i = 0; i < COVERAGE_PLACES; i++)
        total += seen[i] != 0;
    return total;
}
