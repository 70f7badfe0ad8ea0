/* Usage: test_steady [rounds]
 * Ten million steps (a round is a million) leave no growth: RSS after the last round is what it was after the third. */
#include "engine.h"

#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP_ROUNDS = 3, ROUND_STEPS = 1000000, THREADS = 2 };

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : WARM_UP_ROUNDS + 10;
    size_t   settled = 0;
    size_t   rss = 0;
    watchdog_start(600, "steady");
    for (unsigned round = 0; round < rounds; round++) {
        struct engine_plan plan = {
            .threads = THREADS, .generations = 2, .steps = ROUND_STEPS / 2 / THREADS, .seed = round, .largest = 16384};
        engine_run(&plan);
        rss = procinfo_rss_kib();
        printf("round %u: RSS %zu KiB\n", round, rss);
        if (round < WARM_UP_ROUNDS && rss > settled) {
            settled = rss;
        }
    }
    fflush(stdout);
    CHECK(rounds > WARM_UP_ROUNDS, "%u rounds are all warm-up", rounds);
    CHECK(rss <= settled + settled / 10 + 1024, "RSS grew from %zu to %zu KiB", settled, rss);
    return check_report("steady");
}
