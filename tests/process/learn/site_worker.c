/* Usage: site_worker keep|drop|mixed ROUNDS PAUSE_MS BYTES
 * Allocates and frees blocks at one call site in rounds, with a pause between rounds. During the pauses it makes enough slow calls that HAKMEM
 * reads the clock. It prints the page faults in the second half of the rounds, and the mean KiB resident after the last free.
 *   keep   one block of BYTES in each round
 *   drop   four blocks in each round
 *   mixed  one block, and one of three other sizes in turn; no block of one size can serve a request for another */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4, NAPS = 10, SLOW_CALLS = 64, SLOW_SIZE = 300000 };

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void make_slow_calls(void)
{
    static void *volatile blocks[SLOW_CALLS];
    for (int i = 0; i < SLOW_CALLS; i++)
        blocks[i] = malloc(SLOW_SIZE);
    for (int i = 0; i < SLOW_CALLS; i++)
        free(blocks[i]);
}

static void pause_for(long ms)
{
    struct timespec nap = {.tv_sec = ms / NAPS / 1000, .tv_nsec = ms / NAPS % 1000 * 1000000};
    for (int i = 0; i < NAPS; i++) {
        nanosleep(&nap, NULL);
        make_slow_calls();
    }
}

static void use_blocks(int count, size_t size)
{
    char *blocks[MOST];
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        if (blocks[i] == NULL)
            exit(1);
        memset(blocks[i], 1, size);
    }
    for (int i = 0; i < count; i++)
        free(blocks[i]);
}

static void use_next_of_three(int round)
{
    static const size_t mib[] = {14, 58, 236};
    size_t size = mib[round % 3] << 20;
    char *block = malloc(size);
    if (block == NULL)
        exit(1);
    memset(block, 1, size);
    free(block);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    int rounds = atoi(argv[2]);
    bool drops = strcmp(argv[1], "drop") == 0, mixed = strcmp(argv[1], "mixed") == 0;
    long before = 0, resident = 0;
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 2)
            before = faults();
        use_blocks(drops ? MOST : 1, (size_t)atol(argv[4]));
        if (mixed)
            use_next_of_three(round);
        if (round >= rounds / 2)
            resident += resident_kib();
        pause_for(atol(argv[3]));
    }
    printf("%ld %ld\n", faults() - before, resident / (rounds - rounds / 2));
    return 0;
}
