/* Makes one mistake of the list in mistakes.def, and is correct otherwise.
 *   mistake [--sound] KIND SIZE once|later|thread
 *
 * The program prints "mistake: made" after the wrong step, then "mistake: effect" or "mistake: no effect" if an effect can be seen, and finally
 * "mistake: ended". An allocator that finds the mistake ends the program earlier or prints a message. So the output shows when the mistake was found.
 *   once    makes the wrong step at once
 *   later   makes the wrong step after 1000 calls with other sizes
 *   thread  makes the wrong step in another thread, which then ends
 *   --sound leaves the wrong step out, or makes a right one. No allocator may print a message then. */
#include "mistake.h"

static const struct {
    const char *name;
    void (*make)(size_t size);
} kinds[] = {
#define MISTAKE(name, family, rule, sizes, ways, title) {#name, mistake_##name},
#include "mistakes.def"
#undef MISTAKE
};

static bool without;
static const char *way;
static step *chosen; /* the step that make_or() makes, or NULL */

bool sound(void) { return without; }
static void say(const char *what) { dprintf(STDOUT_FILENO, "mistake: %s\n", what); }
void effect(bool had) { say(had ? "effect" : "no effect"); }

void not_offered(void)
{
    say("not offered");
    _exit(0);
}

static void *make_in_thread(void *d)
{
    chosen(d);
    return NULL;
}

void free_it(deed *d) { free(hidden(d->p + d->distance)); }
void delete_it(deed *d) { _ZdlPv(d->p); }

void make_or(step *wrong, step *right, deed *d)
{
    chosen = without ? right : wrong;
    if (strcmp(way, "later") == 0)
        other_calls(d->size, OTHER_CALLS);
    d->p = hidden(d->p);
    if (chosen != NULL && strcmp(way, "thread") == 0)
        pthread_join(bench_start_thread(make_in_thread, d, 0), NULL);
    else if (chosen != NULL)
        chosen(d);
    say("made");
}

int main(int argc, char **argv)
{
    without = argc > 1 && strcmp(argv[1], "--sound") == 0;
    char **words = argv + 1 + without;
    if (argc - without != 4) {
        dprintf(STDERR_FILENO, "usage: mistake [--sound] KIND SIZE once|later|thread\n");
        return 2;
    }
    way = words[2];
    bench_find("kind", kinds, words[0])->make(strtoul(words[1], NULL, 10));
    say("ended");
    return 0;
}
