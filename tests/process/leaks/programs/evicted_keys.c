/* This cache of 500 entries evicts the oldest one. It frees the value of an evicted entry, and leaks its key. */
#include "run.h"

enum { ENTRIES = 500, VALUE = 1500, KEY = 160 };

struct entry {
    char *key, *value;
};
static struct entry entries[ENTRIES];

static __attribute__((noinline)) char *copy_key(void) { return memset(malloc(KEY), 'k', KEY); /* LEAK */ }

static __attribute__((noinline)) char *load_value(void) { return memset(malloc(VALUE), 'v', VALUE); }

int main(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 2; i++) {
            struct entry *entry = &entries[(2 * round + i) % ENTRIES];
            free(entry->value);
            *entry = (struct entry){copy_key(), load_value()};
        }
        work(30, 200);
        end_round();
    }
}
