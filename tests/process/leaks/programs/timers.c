/* In this program, entries expire after different times. A canceled timer is unlinked, but it is not freed. */
#include "run.h"

enum { SLOTS = 1500, ENTRY = 1000, TIMER = 320 };

static void *entries[SLOTS], *timers[SLOTS];

static __attribute__((noinline)) void *new_entry(void) { return memset(malloc(ENTRY), 'e', ENTRY); }

static __attribute__((noinline)) void *start_timer(void) { return memset(malloc(TIMER), 't', TIMER); /* LEAK */ }

int main(void)
{
    unsigned state = 11;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 6; i++) {
            unsigned at = next_number(&state) % SLOTS;
            free(entries[at]);
            if (next_number(&state) % 5 != 0)
                free(timers[at]);
            entries[at] = new_entry();
            timers[at] = start_timer();
        }
        work(20, 450);
        end_round();
    }
}
