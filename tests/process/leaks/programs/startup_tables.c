/* This program reads tables of 4 MiB at its start and keeps them. It also has a log whose records are never removed. */
#include "run.h"

enum { TABLES = 1024, TABLE = 4096, RECORD = 90 };

struct record {
    struct record *next;
    char text[RECORD];
};
static void *tables[TABLES];
static struct record *log_records;

static __attribute__((noinline)) void *read_table(void) { return memset(malloc(TABLE), 't', TABLE); }

static __attribute__((noinline)) void log_line(void)
{
    struct record *record = malloc(sizeof *record); /* LEAK */
    record->next = log_records;
    log_records = record;
}

int main(void)
{
    for (unsigned i = 0; i < TABLES; i++)
        tables[i] = read_table();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 3; i++)
            log_line();
        work(40, 500);
        end_round();
    }
}
