/* hakmem-replay TRACE: repeats the learner's decisions from a trace that HAKMEM_LEARN_TRACE recorded, and prints them in the format of
 * HAKMEM_EXPLAIN. It exits with 2 if the trace is invalid. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "learn/learner.h"

static struct hk_learner learner;

/* Reads `count` numbers that are separated by spaces. Returns false if there are fewer. */
static bool read_numbers(FILE *trace, uint64_t *numbers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (fscanf(trace, "%" SCNu64, &numbers[i]) != 1)
            return false;
    return true;
}

static bool replay_options(FILE *trace)
{
    uint64_t numbers[HK_KNOBS + 3];
    struct hk_knobs options;
    if (!read_numbers(trace, numbers, HK_KNOBS + 3))
        return false;
    memcpy(options.value, numbers, sizeof options.value);
    hk_learner_begin(&learner, &options, numbers[HK_KNOBS], numbers[HK_KNOBS + 1], numbers[HK_KNOBS + 2]);
    return true;
}

static void print(struct hk_step *step, uint64_t ms)
{
    for (unsigned i = 0; i < step->count; i++) {
        struct hk_text line;
        hk_text_init(&line, 1);
        step->decisions[i].ms = ms;
        hk_explain_decision(&line, &step->decisions[i]);
        hk_text_flush(&line);
    }
}

static bool replay_tick(FILE *trace)
{
    uint64_t ms;
    struct hk_signals saw;
    struct hk_step step;
    if (!read_numbers(trace, &ms, 1) || !read_numbers(trace, saw.value, HK_SIGNALS))
        return false;
    hk_learner_step(&learner, &saw, &step);
    print(&step, ms);
    return true;
}

static bool replay(FILE *trace)
{
    char word[16];
    if (fscanf(trace, "%15s", word) != 1 || strcmp(word, "options") != 0 || !replay_options(trace))
        return false;
    while (fscanf(trace, "%15s", word) == 1)
        if (strcmp(word, "tick") != 0 || !replay_tick(trace))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    FILE *trace = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (trace == NULL) {
        fprintf(stderr, "usage: hakmem-replay TRACE (a file written by HAKMEM_LEARN_TRACE)\n");
        return 2;
    }
    bool whole = replay(trace);
    if (!whole)
        fprintf(stderr, "hakmem-replay: %s is not a complete trace of this version\n", argv[1]);
    fclose(trace);
    return whole ? 0 : 2;
}
