/* Reads /proc/self/maps and /proc/self/smaps. */
#include "os/maps.h"
#include <string.h>
#include "os/os.h"

bool hk_lines_open(struct hk_lines *lines, const char *path)
{
    lines->fd = hk_os.open(path);
    lines->at = lines->got = 0;
    return lines->fd >= 0;
}

bool hk_lines_next(struct hk_lines *lines, char *line, size_t size)
{
    for (size_t used = 0;;) {
        if (lines->at == lines->got) {
            lines->got = hk_os.read(lines->fd, lines->bytes, sizeof lines->bytes);
            lines->at = 0;
        }
        if (lines->got == 0) {
            hk_os_close(lines->fd); /* fails if the file was not opened */
            return false;
        }
        char c = lines->bytes[lines->at++];
        line[used] = c == '\n' ? 0 : c;
        if (c == '\n')
            return true;
        used += used < size - 1;
    }
}

static const char *read_number(const char *at, unsigned base, uintptr_t *value)
{
    for (*value = 0;; at++) {
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10
                                                    : base;
        if (digit >= base)
            return at;
        *value = *value * base + digit;
    }
}

const char *hk_word_behind(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

/* Parses a line such as "7f00a000-7f00b000 rw-p offset device inode   path". */
bool hk_mapping_parse(const char *line, struct hk_mapping *mapping)
{
    uintptr_t start, end, offset, inode;
    const char *dash = read_number(line, 16, &start);
    if (dash == line || *dash != '-')
        return false;
    const char *rights = read_number(dash + 1, 16, &end);
    rights += *rights == ' ';
    const char *offset_at = hk_word_behind(rights), *inode_at = hk_word_behind(hk_word_behind(offset_at));
    read_number(offset_at, 16, &offset);
    read_number(inode_at, 10, &inode);
    bool is_code = strnlen(rights, 3) == 3 && rights[2] == 'x';
    *mapping = (struct hk_mapping){start, end, 0, inode, offset, hk_word_behind(inode_at), is_code};
    return true;
}

bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context)
{
    struct hk_lines lines;
    struct hk_mapping mapping = {.start = 0};
    char line[64]; /* longer lines are cut off, because only paths are that long, and paths are not needed */
    uintptr_t visited = 0, kib;
    bool any = false;
    hk_lines_open(&lines, "/proc/self/smaps");
    while (hk_lines_next(&lines, line, sizeof line))
        /* The kernel lists a mapping again if it has grown. A repeated mapping is skipped, because the walk over a growing heap might never end. */
        if (!hk_mapping_parse(line, &mapping) && mapping.start >= visited && strncmp(line, "Rss:", 4) == 0) {
            read_number(hk_word_behind(line), 10, &kib); /* the line is such as "Rss:      12 kB" */
            mapping.resident = kib * 1024;
            mapping.path = "";
            visit(context, &mapping);
            visited = mapping.end;
            any = true;
        }
    return any;
}
