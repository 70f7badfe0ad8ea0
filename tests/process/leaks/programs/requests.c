/* This server has an LRU cache of sessions. One request in eight leaks its header. */
#include "run.h"

#ifdef LEAKS_NOTHING
enum { NOTHING_LEAKS = 1 };
#else
enum { NOTHING_LEAKS = 0 };
#endif
enum { SESSIONS = 300, HEADER = 700, SESSION = 2000 };

static void *sessions[SESSIONS];
static char *last_header;

static __attribute__((noinline)) char *read_header(void) { return memset(malloc(HEADER), 'h', HEADER); /* LEAK */ }

static __attribute__((noinline)) void *new_session(void) { return memset(malloc(SESSION), 's', SESSION); }

int main(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned request = 0; request < 8; request++) {
            last_header = read_header();
            if (request != 3 || NOTHING_LEAKS)
                free(last_header);
        }
        free(sessions[round % SESSIONS]);
        sessions[round % SESSIONS] = new_session();
        work(20, 300);
        end_round();
    }
}
