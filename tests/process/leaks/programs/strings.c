/* This program keeps each different string once until it has all of them. It also joins strings, and one caller does not free the result. */
#include "run.h"

enum { WORDS = 4000, WORD = 100, JOINED = 260 };

static char *words[WORDS];
static char *volatile shown;

static __attribute__((noinline)) char *intern(unsigned number)
{
    if (words[number] == NULL)
        words[number] = memset(malloc(WORD), 'w', WORD);
    return words[number];
}

static __attribute__((noinline)) char *join(const char *one, const char *other)
{
    char *joined = malloc(JOINED); /* LEAK */
    memcpy(joined, one, WORD);
    memcpy(joined + WORD, other, WORD);
    return joined;
}

int main(void)
{
    unsigned state = 3;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 12; i++) {
            unsigned one = next_number(&state) % (WORDS / 2), other = next_number(&state) % WORDS;
            shown = join(intern(one), intern(other));
            if (i != 5)
                free(shown);
        }
        end_round();
    }
}
