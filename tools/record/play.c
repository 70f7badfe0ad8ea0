/* hakmem-play: reads recordings of libhakmem-record.so, and plays them.
 *
 *   hakmem-play show FILE [--cut]                prints the sums of a recording as JSON
 *   hakmem-play plan FILE PLAN [--cut]           also writes a plan, which is needed for playing
 *   hakmem-play play PLAN [--dry] [--window N]   plays the plan on this process's allocator, and prints figures as JSON on standard error
 *
 * --cut accepts a recording that ends early because the file could not grow. --dry calls no allocator. --window sets how many events a thread may be
 * ahead of the others. The exit code is 1 if the allocator made a mistake, 2 if a file is refused, and 64 if the arguments are wrong. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "player.h"

enum { WRONG = 1, REFUSED = 2, USAGE = 64 };
enum { WINDOW = 1024 };
/* If more than one allocation in IMPLIED_SHARE lies at the address of a live block, many frees were not recorded, and the recording is refused. */
enum { IMPLIED_SHARE = 100 };

static int refuse(const char *path, const char *why)
{
    fprintf(stderr, "hakmem-play: %s: %s\n", path, why);
    return REFUSED;
}

static int usage(void)
{
    fprintf(stderr, "usage: hakmem-play show FILE [--cut] | plan FILE PLAN [--cut] | play PLAN [--dry] [--window N]\n");
    return USAGE;
}

/* ---- recordings -------------------------------------------------------- */

struct mapped {
    void *bytes;
    size_t size;
};

static const char *map(const char *path, struct mapped *mapped)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0) {
        int error = errno;
        if (file >= 0)
            close(file);
        return strerror(error);
    }
    mapped->size = (size_t)status.st_size;
    mapped->bytes = NULL;
    if (S_ISREG(status.st_mode) && mapped->size != 0)
        mapped->bytes = mmap(NULL, mapped->size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return mapped->bytes == NULL ? "not a recording" : mapped->bytes == MAP_FAILED ? strerror(errno) : NULL;
}

static bool accept_cut(struct rec_reader *reader, bool cut)
{
    if (reader->head.lost == 0 || cut)
        return true;
    return rec_refuse(reader, "the recording stops before the program's end: the file could not grow "
                              "(--cut plays what is there)");
}

static bool in_order(struct rec_reader *reader, const struct rec_totals *totals)
{
    uint64_t allocs = 0;
    for (int i = 0; i < REC_KINDS; i++)
        allocs += totals->allocs[i];
    if (totals->implied * IMPLIED_SHARE <= allocs)
        return true;
    return rec_refuse(
        reader, "%llu of %llu allocations lie on live blocks: the program frees by functions that are not recorded",
        (unsigned long long)totals->implied, (unsigned long long)allocs);
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ' || (unsigned char)*text > '~')
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    putchar('"');
}

struct row {
    const char *name;
    uint64_t value;
};

/* Makes a row from the name and the value of a member of a structure. */
#define ROW(of, member)                                                                                                \
    (struct row) { #member, (of)->member }

static void print_rows(FILE *to, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(to, ", \"%s\": %llu", rows[i].name, (unsigned long long)rows[i].value);
}

static void print_totals(const struct rec_reader *reader, const struct rec_totals *t)
{
    static const char *const names[] = {"malloc", "calloc", "aligned", "new", "new_aligned"}; /* from REC_MALLOC on */
    const struct rec_head *head = &reader->head;
    printf("{\"program\": ");
    print_text(head->program);
    printf(", \"pid\": %llu, \"sample\": %u, \"ended\": %s, \"cut\": %s, \"file_bytes\": %zu",
           (unsigned long long)head->pid, head->sample, head->ended != 0 ? "true" : "false",
           head->lost != 0 ? "true" : "false", reader->size);
    const struct row sums[] = {ROW(t, events),     ROW(t, threads),     ROW(t, frees),      ROW(t, reallocs),
                               ROW(t, refused),    ROW(t, unknown),     ROW(t, implied),    ROW(t, bytes),
                               ROW(t, peak_bytes), ROW(t, peak_blocks), ROW(t, live_bytes), ROW(t, live_blocks)};
    const struct row figures[] = {ROW(head, peak_rss_kib), ROW(head, file_rss_kib), ROW(head, first_anon_kib),
                                  ROW(head, faults),       ROW(head, cpu_us),       ROW(head, wall_us)};
    print_rows(stdout, sums, sizeof sums / sizeof *sums);
    print_rows(stdout, figures, sizeof figures / sizeof *figures);
    printf(", \"allocs\": {");
    for (int i = REC_MALLOC; i <= REC_NEW_ALIGNED; i++)
        printf("%s\"%s\": %llu", i == REC_MALLOC ? "" : ", ", names[i - REC_MALLOC], (unsigned long long)t->allocs[i]);
    printf("}}\n");
}

static int write_plan(struct rec_reader *reader, struct overview *overview, const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return refuse(path, strerror(errno));
    bool written = plan_write(reader, overview, file);
    close(file);
    return written ? 0 : refuse(path, reader->why);
}

/* Prints the sums of the recording, and writes its plan if `plan` is not NULL. Returns the exit code. */
static int read_recording(const char *path, const char *plan, bool cut)
{
    struct mapped mapped = {NULL, 0};
    struct rec_reader reader;
    const char *why = map(path, &mapped);
    if (why != NULL)
        return refuse(path, why);
    if (!rec_reader_open(&reader, mapped.bytes, mapped.size))
        return refuse(path, reader.why);
    int code = 0;
    struct overview overview = {0};
    if (!accept_cut(&reader, cut) || !overview_open(&overview, &reader) || !in_order(&reader, &overview.totals))
        code = refuse(path, reader.why);
    else
        print_totals(&reader, &overview.totals);
    if (code == 0 && plan != NULL)
        code = write_plan(&reader, &overview, plan);
    overview_close(&overview);
    rec_reader_close(&reader);
    munmap(mapped.bytes, mapped.size);
    return code;
}

/* ---- playing ----------------------------------------------------------- */

static const char *malloc_from(void)
{
    Dl_info info;
    void *found = dlsym(RTLD_DEFAULT, "malloc");
    return found != NULL && dladdr(found, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "";
}

static int play(const char *path, const struct player_options *options)
{
    struct player_result r;
    const char *why;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return refuse(path, strerror(errno));
    if (!player_play(file, options, &r, &why))
        return refuse(path, why);
    fprintf(stderr, "{\"malloc_from\": \"%s\"", malloc_from());
    const struct row rows[] = {ROW(&r, allocs), ROW(&r, frees),   ROW(&r, reallocs),     ROW(&r, bytes),
                               ROW(&r, failed), ROW(&r, wrong),   ROW(&r, left),         ROW(&r, faults),
                               ROW(&r, cpu_us), ROW(&r, wall_us), ROW(&r, peak_rss_kib), ROW(&r, heap_kib)};
    print_rows(stderr, rows, sizeof rows / sizeof *rows);
    fprintf(stderr, "}\n");
    return r.wrong != 0 ? WRONG : 0;
}

static int play_command(int argc, char **argv)
{
    struct player_options options = {.window = WINDOW};
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--dry") == 0)
            options.dry = true;
        else if (strcmp(argv[i], "--window") == 0 && i + 1 < argc)
            options.window = strtoull(argv[++i], NULL, 10);
        else
            return usage();
    }
    return play(argv[2], &options);
}

int main(int argc, char **argv)
{
    bool cut = argc > 3 && strcmp(argv[argc - 1], "--cut") == 0;
    argc -= cut;
    if (argc == 3 && strcmp(argv[1], "show") == 0)
        return read_recording(argv[2], NULL, cut);
    if (argc == 4 && strcmp(argv[1], "plan") == 0)
        return read_recording(argv[2], argv[3], cut);
    if (argc >= 3 && strcmp(argv[1], "play") == 0)
        return play_command(argc, argv);
    return usage();
}
