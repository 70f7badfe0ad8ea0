/* Usage: test_report_worker numbers PREFIX | churn THREADS | idle | outside | handler | child | children COUNT | vforks | interrupted
 * The tests of the report run this program with HAKMEM preloaded. The modes are:
 *   numbers  writes all figures about the heap, without a call of malloc between them
 *   churn    threads allocate and free until stdin ends
 *   idle     calls malloc once, and then nothing until stdin ends
 *   outside  maps memory around the heap, so that the heap grows elsewhere
 *   handler  works as idle, but handles SIGUSR1 itself and prints "handled"
 *   child    works as idle, but in a fork child, and prints the child's process id
 *   children     starts children that allocate and end by _exit, as those of Python's multiprocessing do
 *   vforks       starts a vfork child that ends by _exit
 *   interrupted  a signal handler ends the process by _exit while another thread may be in a call of malloc; prints nothing */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo is tested here */

enum { MOST_THREADS = 16, SLOTS = 512, KEPT = 3000 };
#define BESIDE ((size_t)256 << 30) /* bytes of address space */

static void say(const char *word)
{
    if (write(STDOUT_FILENO, word, strlen(word)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0) {
        _exit(2);
    }
}

static void wait_for_end_of_input(void)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) != 0) {}
}

static int create(const char *prefix, const char *ending)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", prefix, ending);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

static void copy_file(const char *from, int to)
{
    char bytes[4096];
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) > 0 && write(to, bytes, (size_t)n) == n) {}
    close(fd);
}

static void work(void)
{
    static void *kept[KEPT];
    for (int i = 0; i < KEPT; i++) {
        kept[i] = malloc((size_t)i * 13 + 1);
        memset(kept[i], 1, (size_t)i * 13 + 1);
    }
    for (int i = 0; i < KEPT; i += 3) {
        free(kept[i]);
    }
    memset(malloc(5 << 20), 1, 1 << 20);
    free(malloc(3 << 20));
}

/* Writes all figures. Streams get their buffers, and stdio makes its first allocations, before the first figure is taken. */
static int numbers(const char *prefix)
{
    static char xml_buffer[65536], info_buffer[4096], json[4096];
    int (*report)(const char *path);
    *(void **)&report = dlsym(RTLD_DEFAULT, "hak_report");
    FILE *xml = fdopen(create(prefix, "xml"), "w"), *info = fdopen(create(prefix, "info"), "w");
    int text = create(prefix, "txt"), smaps = create(prefix, "smaps");
    if (report == NULL || xml == NULL || info == NULL || text < 0 || smaps < 0) {
        return 2;
    }
    setvbuf(xml, xml_buffer, _IOFBF, sizeof xml_buffer);
    setvbuf(info, info_buffer, _IOFBF, sizeof info_buffer);
    snprintf(json, sizeof json, "%s.json", prefix);
    work();
    if (report(json) != 0) {
        return 2;
    }
    struct mallinfo2 wide = mallinfo2();
    struct mallinfo narrow = mallinfo();
    malloc_info(0, xml);
    int stderr_before = dup(STDERR_FILENO);
    dup2(text, STDERR_FILENO);
    malloc_stats();
    dup2(stderr_before, STDERR_FILENO);
    copy_file("/proc/self/smaps", smaps);
    fprintf(info, "%zu %zu %zu %zu %zu %zu %zu %zu\n", wide.arena, wide.ordblks, wide.hblks, wide.hblkhd, wide.fsmblks,
            wide.uordblks, wide.fordblks, wide.keepcost);
    fprintf(info, "%d %d %d %d %d %d %d %d\n", narrow.arena, narrow.ordblks, narrow.hblks, narrow.hblkhd,
            narrow.fsmblks, narrow.uordblks, narrow.fordblks, narrow.keepcost);
    return fclose(xml) != 0 || fclose(info) != 0;
}

static atomic_bool x_stop;

static void *churn_one(void *seed)
{
    void *slots[SLOTS] = {NULL};
    unsigned state = (unsigned)(size_t)seed;
    while (!atomic_load(&x_stop)) {
        unsigned i = (unsigned)rand_r(&state) % SLOTS, shift = (unsigned)rand_r(&state) % 22;
        free(slots[i]);
        slots[i] = malloc(((size_t)1 << shift) + i);
        memset(slots[i], 1, 1);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        free(slots[i]);
    }
    return NULL;
}

static int churn(int count)
{
    pthread_t threads[MOST_THREADS];
    for (int i = 0; i < count && i < MOST_THREADS; i++) {
        pthread_create(&threads[i], NULL, churn_one, (void *)(size_t)(i + 1));
    }
    say("ready");
    wait_for_end_of_input();
    atomic_store(&x_stop, true);
    for (int i = 0; i < count && i < MOST_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}

/* Returns the end of the adjacent mappings that begin with the mapping of `p`. */
static uintptr_t end_of_mappings(const void *p)
{
    static char buffer[65536];
    FILE *maps = fopen("/proc/self/maps", "r");
    uintptr_t end = 0, from, to;
    if (maps == NULL) {
        return 0;
    }
    setvbuf(maps, buffer, _IOFBF, sizeof buffer);
    while (fscanf(maps, "%zx-%zx%*[^\n]", &from, &to) == 2) {
        bool holds = (uintptr_t)p >= from && (uintptr_t)p < to;
        end = holds || from == end ? to : end;
    }
    fclose(maps);
    return end;
}

static int outside(void)
{
    void *end = (void *)end_of_mappings(malloc(100));
    void *beside =
        mmap(end, BESIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (end == NULL || beside != end) {
        return 3;
    }
    work();
    return 0;
}

static int idle(void)
{
    free(malloc(100));
    say("ready");
    wait_for_end_of_input();
    return 0;
}

static void handle(int number)
{
    (void)number;
    say("handled");
}

static int child(void)
{
    free(malloc(100));
    pid_t pid = fork();
    if (pid == 0) {
        char number[32];
        free(malloc(5000)); /* the first call for a size class is always a miss */
        snprintf(number, sizeof number, "%d", (int)getpid());
        say(number);
        wait_for_end_of_input();
        exit(0);
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 2;
}

enum { BLOCKS_OF_CHILD = 5000, INTERRUPTIONS = 40 };

static int wait_for(pid_t pid)
{
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int children(int count)
{
    free(malloc(100));
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int block = 0; block < BLOCKS_OF_CHILD; block++) {
                memset(malloc(100), 1, 100);
            }
            _exit(i % 100);
        }
        if (wait_for(pid) != i % 100) {
            return 2;
        }
    }
    return 0;
}

static int vforks(void)
{
    free(malloc(100));
    pid_t pid = vfork();
    if (pid == 0) {
        _exit(7);
    }
    return wait_for(pid) == 7 ? 0 : 2;
}

static void end(int number)
{
    (void)number;
    _exit(3);
}

static int interrupted(void)
{
    for (int round = 0; round < INTERRUPTIONS; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct itimerval soon = {{0, 0}, {0, 500 + round * 20}};
            signal(SIGALRM, end);
            setitimer(ITIMER_REAL, &soon, NULL);
            (void)churn_one((void *)(size_t)(round + 1));
        }
        if (wait_for(pid) != 3) {
            return 2;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "numbers") == 0 && argc == 3) {
        return numbers(argv[2]);
    }
    if (strcmp(mode, "churn") == 0 && argc == 3) {
        return churn(atoi(argv[2]));
    }
    if (strcmp(mode, "handler") == 0) {
        signal(SIGUSR1, handle);
        return idle();
    }
    if (strcmp(mode, "children") == 0 && argc == 3) {
        return children(atoi(argv[2]));
    }
    if (strcmp(mode, "vforks") == 0) {
        return vforks();
    }
    if (strcmp(mode, "outside") == 0) {
        return outside();
    }
    if (strcmp(mode, "interrupted") == 0) {
        return interrupted();
    }
    return strcmp(mode, "idle") == 0 ? idle() : strcmp(mode, "child") == 0 ? child() : 2;
}
