/* Tests HAKMEM's handler of SIGTERM. If the program asks for the action of SIGTERM, it must see the default action although HAKMEM's handler is
 * installed, also in many threads. A process that SIGTERM ends must write its report, and must end by the signal. */
#include "support/check.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 300, ROUNDS = 200 };

static void on_term(int number) { (void)number; }

static sighandler_t seen(void)
{
    struct sigaction now = {.sa_handler = on_term};
    CHECK(sigaction(SIGTERM, NULL, &now) == 0, "sigaction");
    return now.sa_handler;
}

static void *change_often(void *unused)
{
    struct sigaction action = {.sa_handler = on_term}, former;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(sigaction(SIGTERM, &action, &former) == 0, "sigaction");
        CHECK(former.sa_handler == on_term || former.sa_handler == SIG_DFL, "a handler that is not the program's");
        former.sa_handler = signal(SIGTERM, SIG_DFL);
        CHECK(former.sa_handler == on_term || former.sa_handler == SIG_DFL, "a handler that is not the program's");
        free(malloc(100));
    }
    return unused;
}

static void change_in_threads(void)
{
    static pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, change_often, NULL) == 0, "thread %d", i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void end_a_child(void)
{
    char report[4096];
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        free(malloc(100));
        raise(SIGTERM);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status %d",
          status);
    snprintf(report, sizeof report, "%s/term.%d.json", getenv("TERM_REPORTS"), (int)child);
    CHECK(unlink(report) == 0, "no report %s", report);
}

int main(void)
{
    watchdog_start(120, "SIGTERM");
    free(malloc(100));
    CHECK(seen() == SIG_DFL, "the default action is hidden");
    CHECK(signal(SIGTERM, on_term) == SIG_DFL && seen() == on_term, "signal");
    CHECK(signal(SIGTERM, SIG_IGN) == on_term && seen() == SIG_IGN, "signal to SIG_IGN");
    CHECK(signal(SIGTERM, SIG_DFL) == SIG_IGN && seen() == SIG_DFL, "signal to SIG_DFL");
    change_in_threads();
    end_a_child();
    return check_report("term");
}
