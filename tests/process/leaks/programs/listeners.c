/* This program opens and closes windows, each with three listeners. One of the three is not freed with its window. */
#include "run.h"

enum { WINDOWS = 60, WINDOW = 3000, LISTENER = 200, LISTENERS = 3 };

struct window {
    void *content, *listeners[LISTENERS];
};
static struct window windows[WINDOWS];

static __attribute__((noinline)) void *listen(void) { return memset(malloc(LISTENER), 'l', LISTENER); /* LEAK */ }

static __attribute__((noinline)) void *draw(void) { return memset(malloc(WINDOW), 'w', WINDOW); }

int main(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct window *window = &windows[round % WINDOWS];
        free(window->content);
        for (unsigned i = 1; i < LISTENERS; i++)
            free(window->listeners[i]);
        window->content = draw();
        for (unsigned i = 0; i < LISTENERS; i++)
            window->listeners[i] = listen();
        work(25, 600);
        end_round();
    }
}
