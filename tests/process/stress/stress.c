/* Usage: test_stress [threads=N] [generations=N] [steps=N] [seed=N] [largest=BYTES]
 * Tests the allocator with one run of the engine. */
#include "engine.h"

#include "support/check.h"
#include "support/watchdog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_argument(struct engine_plan *plan, const char *argument)
{
    const char *equals = strchr(argument, '=');
    if (!equals) {
        return false;
    }
    uint64_t value = strtoull(equals + 1, NULL, 10);
    if (strncmp(argument, "threads=", 8) == 0) {
        plan->threads = (unsigned)value;
    } else if (strncmp(argument, "generations=", 12) == 0) {
        plan->generations = (unsigned)value;
    } else if (strncmp(argument, "steps=", 6) == 0) {
        plan->steps = value;
    } else if (strncmp(argument, "seed=", 5) == 0) {
        plan->seed = value;
    } else if (strncmp(argument, "largest=", 8) == 0) {
        plan->largest = (size_t)value;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct engine_plan plan = {.threads = 4, .generations = 4, .steps = 50000, .seed = 1, .largest = (size_t)4 << 20};
    for (int i = 1; i < argc; i++) {
        if (!read_argument(&plan, argv[i]) || plan.threads == 0 || plan.threads > ENGINE_THREADS) {
            fprintf(stderr, "stress: not understood: %s\n", argv[i]);
            return 2;
        }
    }
    watchdog_start(600, "stress");
    uint64_t steps = engine_run(&plan);
    printf("stress: seed %" PRIu64 ", %u threads in %u generations, %" PRIu64 " steps\n", plan.seed, plan.threads,
           plan.generations, steps);
    fflush(stdout);
    return check_report("stress");
}
