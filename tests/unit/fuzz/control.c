/* Defines the negative control of the engine. It is a stack with a deliberate mistake, which the engine must find in its own process and in a
 * forked child. */
#include <stdlib.h>

#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/world.h"

void world_prepare(void) {}
void world_reset(void) {}

enum { MOST = 64, WRONG_AT = 11 };

/* The stack loses its twelfth byte if this byte is odd. */
static void run_stack(struct fuzz_input *in)
{
    uint8_t stack[MOST], model[MOST];
    unsigned used = 0;
    while (fuzz_next(in)) {
        uint8_t byte = fuzz_byte(in);
        if (byte < 200 && used < MOST) {
            stack[used] = used == WRONG_AT && byte % 2 == 1 ? 0 : byte;
            model[used++] = byte;
        } else if (used > 0) {
            used--;
            FUZZ_CHECK(stack[used] == model[used], "(%u)", used);
        }
    }
}

void fuzz_wrong_here(struct fuzz_input *in) { run_stack(in); }
void fuzz_wrong_in_child(struct fuzz_input *in) { run_stack(in); }

/* Aborts without a message. */
void fuzz_crash(struct fuzz_input *in)
{
    while (fuzz_next(in))
        if (fuzz_byte(in) == 0x77)
            abort();
}
