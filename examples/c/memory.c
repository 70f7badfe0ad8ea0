/* Builds a table, throws most of it away, and says what HAKMEM holds and what is in memory: before, with the table, after, and once free memory was given back.
 * Usage: memory [FILE]   FILE gets the report: text, JSON if it ends in .json; - is stderr */
#include <hakmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 200000, KEPT = 100 }; /* of each so many rows, one is kept */

/* MiB of the process that are in memory. */
static double resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void say(const char *when)
{
    struct hak_stats stats;
    if (hak_get_stats(&stats, sizeof stats) != 0) {
        perror("hak_get_stats");
        return;
    }
    printf("%-16s %7.1f MiB with the program %7.1f MiB resident %9llu blocks\n", when,
           (double)(stats.live + stats.large_live) / (1 << 20), resident(), (unsigned long long)stats.live_blocks);
}

int main(int arguments, char **argument)
{
    char **rows = malloc(ROWS * sizeof *rows);
    if (rows == NULL)
        return EXIT_FAILURE;
    say("at first");
    for (size_t row = 0; row < ROWS; row++) {
        rows[row] = malloc(100 + row % 400);
        if (rows[row] == NULL)
            return EXIT_FAILURE;
        memset(rows[row], 'x', 100 + row % 400);
    }
    say("with the table");
    for (size_t row = 0; row < ROWS; row++)
        if (row % KEPT != 0) {
            free(rows[row]);
            rows[row] = NULL;
        }
    say("most is free");
    hak_malloc_trim(0);
    say("after the trim");
    if (arguments > 1 && hak_report(argument[1]) != 0)
        fprintf(stderr, "%s: the report cannot be written\n", argument[1]);
    for (size_t row = 0; row < ROWS; row++)
        free(rows[row]);
    free(rows);
    return EXIT_SUCCESS;
}
