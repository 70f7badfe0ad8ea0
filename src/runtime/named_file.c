/* Expands the names of files in options. Opens, writes and replaces these files. */
#include "runtime/named_file.h"
#include <errno.h>
#include <string.h>
#include "os/os.h"
#include "policy/options.h"

static bool is_child;

/* Returns true if the parent's environment contains the string `entry`. A zero byte ends each string of the environment. */
static bool parent_has(const char *entry)
{
    struct hk_text piece = {.fd = HK_NOWHERE};
    size_t at = 0; /* number of bytes of the current string, from its start, that are equal to those of `entry` */
    bool fits = true, found = false;
    hk_text_add(&piece, "/proc/%d/environ", hk_os_parent_id());
    int fd = hk_path_end(&piece) ? hk_os.open(piece.bytes) : -1;
    if (fd < 0)
        return false;
    for (size_t got; (got = hk_os.read(fd, piece.bytes, sizeof piece.bytes)) > 0;)
        for (size_t i = 0; i < got; i++) {
            char next = piece.bytes[i];
            fits = fits && entry[at] == next;
            found |= fits && next == 0;
            at = fits && next != 0 ? at + 1 : 0;
            fits |= next == 0;
        }
    hk_os_close(fd);
    return found;
}

HK_EACH_PROCESS bool hk_named_files_wanted(void)
{
    return ((uintptr_t)hk_options.report | (uintptr_t)hk_options.heap_profile | (uintptr_t)hk_options.explain |
            (uintptr_t)hk_options.profile_save | (uintptr_t)hk_options.learn_trace) != 0;
}

void hk_named_files_begin(void)
{
    static const char *const names[] = {"HAKMEM_REPORT", "HAKMEM_HEAP_PROFILE", "HAKMEM_EXPLAIN", "HAKMEM_PROFILE_SAVE",
                                        "HAKMEM_LEARN_TRACE"};
    if (!hk_named_files_wanted())
        return;
    const char *preload = hk_option_entry("LD_PRELOAD"), *option = NULL;
    for (size_t i = 0; preload != NULL && option == NULL && i < sizeof names / sizeof names[0]; i++)
        option = hk_option_entry(names[i]);
    is_child = option != NULL && parent_has(preload) && parent_has(option);
}

void hk_named_files_fork_child(void) { is_child = true; }

bool hk_path_end(struct hk_text *path)
{
    if (path->used >= sizeof path->bytes)
        return false;
    path->bytes[path->used] = 0;
    return true;
}

static void add_expanded(struct hk_text *path, const char *name, const char *end)
{
    for (const char *at = name; at < end; at++)
        if (at[0] == '%' && at[1] == 'p') {
            hk_text_add(path, "%d", hk_os.process_id());
            at++;
        } else
            hk_text_add(path, "%c", *at);
}

/* In a child process, inserts the process id before the ending of the name. Keeps the name of a pipe or a device, because all processes share it. */
bool hk_named_path(struct hk_text *path, const char *name, const char *ending)
{
    const char *end = name + strlen(name), *slash = strrchr(name, '/'), *split = end;
    bool is_folder = ending != NULL && end > name && end[-1] == '/';
    bool inserts = ending != NULL && is_child && !is_folder && strstr(name, "%p") == NULL && hk_os_is_replaceable(name);
    if (inserts) {
        const char *last = slash != NULL ? slash + 1 : name, *dot = strrchr(last, '.');
        split = dot != NULL && dot > last ? dot : end;
    }
    hk_text_init(path, HK_NOWHERE);
    add_expanded(path, name, split);
    if (inserts)
        hk_text_add(path, ".%d", hk_os.process_id());
    if (is_folder)
        hk_text_add(path, "%d%s", hk_os.process_id(), ending);
    add_expanded(path, split, end);
    return hk_path_end(path);
}

static int write_to(const char *path, const char *name, hk_file_writer *write)
{
    int fd = hk_os_create(path);
    if (fd < 0)
        return fd;
    int result = write(fd, name);
    hk_os_close(fd);
    return result;
}

/* Writes the file in place if no temporary file can be written beside it. */
int hk_named_file_write(const char *name, const char *ending, hk_file_writer *write)
{
    struct hk_text path, beside = {.fd = HK_NOWHERE};
    if (strcmp(name, "-") == 0)
        return write(ending != NULL ? HK_STDERR : HK_STDERR_ASKED_FOR, name);
    if (!hk_named_path(&path, name, ending))
        return -ENAMETOOLONG;
    hk_text_add(&beside, "%s.%d.tmp", path.bytes, hk_os.process_id());
    if (!hk_path_end(&beside) || !hk_os_is_replaceable(path.bytes))
        return write_to(path.bytes, path.bytes, write);
    int result = write_to(beside.bytes, path.bytes, write);
    if (result == HK_FILE_STAYS)
        hk_os_remove(beside.bytes);
    else if (result != 0 || !hk_os_rename(beside.bytes, path.bytes))
        return write_to(path.bytes, path.bytes, write);
    return 0;
}

static void option_file_done(const char *option, const char *name, int result, bool *refused)
{
    if (result < 0 && !*refused)
        hk_message(HK_TEXT_option_file, option, name, hk_os_error(result));
    *refused = result < 0;
}

void hk_option_file_write(const char *option, const char *name, const char *ending, hk_file_writer *write,
                          bool *refused)
{
    option_file_done(option, name, hk_named_file_write(name, ending, write), refused);
}

void hk_option_file_append(const char *option, const char *name, struct hk_text *text, bool *refused)
{
    struct hk_text path;
    if (strcmp(name, "-") == 0)
        text->fd = HK_STDERR;
    else
        text->fd = hk_named_path(&path, name, ".log") ? hk_os_append(path.bytes) : -ENAMETOOLONG;
    option_file_done(option, name, text->fd, refused);
    if (text->fd >= 0)
        hk_text_flush(text);
    if (text->fd > HK_STDERR)
        hk_os_close(text->fd);
}
