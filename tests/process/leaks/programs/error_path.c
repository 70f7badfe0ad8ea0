/* This parser has a rare error path that returns and does not free the document. Its results live for half a second. */
#include "run.h"

enum { RESULTS = 2000, DOCUMENT = 3000, RESULT = 400 };

static void *results[RESULTS];
static void *lost;

static __attribute__((noinline)) char *open_document(void)
{
    return memset(malloc(DOCUMENT), 'd', DOCUMENT); /* LEAK */
}

static __attribute__((noinline)) void *make_result(void) { return memset(malloc(RESULT), 'r', RESULT); }

static void *parse(unsigned *state)
{
    char *document = open_document();
    lost = document;
    if (next_number(state) % 30 == 0)
        return NULL;
    void *result = make_result();
    free(document);
    return result;
}

int main(void)
{
    unsigned state = 7, at = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 4; i++, at++) {
            free(results[at % RESULTS]);
            results[at % RESULTS] = parse(&state);
        }
        end_round();
    }
}
