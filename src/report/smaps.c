#include "report/smaps.h"

#include <string.h>

#include "os/os.h"

/* The beginning of a line; only file names are longer. */
struct line {
    size_t used;
    char bytes[64];
};

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

/* "rwxp offset device inode": the number of the file. */
static uintptr_t read_inode(const char *at)
{
    uintptr_t inode;
    for (int word = 0; word < 3; word++) {
        while (*at != 0 && *at != ' ')
            at++;
        while (*at == ' ')
            at++;
    }
    read_number(at, 10, &inode);
    return inode;
}

/* "7f00a000-7f00b000 rw-p ..." */
static bool parse_mapping_header(const char *text, struct hk_mapping *mapping)
{
    uintptr_t start, end;
    const char *dash = read_number(text, 16, &start);
    if (dash == text || *dash != '-')
        return false;
    const char *rest = read_number(dash + 1, 16, &end);
    *mapping = (struct hk_mapping){start, end, 0, read_inode(*rest == ' ' ? rest + 1 : rest)};
    return true;
}

/* "Rss:      12 kB" */
static bool parse_resident(const char *text, struct hk_mapping *mapping)
{
    static const char name[] = "Rss:";
    if (strncmp(text, name, sizeof name - 1) != 0)
        return false;
    const char *at = text + sizeof name - 1;
    while (*at == ' ')
        at++;
    uintptr_t kib;
    read_number(at, 10, &kib);
    mapping->resident = kib * HK_KIB;
    return true;
}

/* Returns true at the end of a line, which is then zero-terminated. */
static bool line_ends(struct line *line, char c)
{
    if (c != '\n') {
        if (line->used < sizeof line->bytes - 1)
            line->bytes[line->used++] = c;
        return false;
    }
    line->bytes[line->used] = 0;
    line->used = 0;
    return true;
}

bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context)
{
    char bytes[1024]; /* on the caller's stack */
    struct line line = {.used = 0};
    struct hk_mapping mapping = {0, 0, 0, 0};
    bool any = false;
    int fd = hk_os.open("/proc/self/smaps");
    if (fd < 0)
        return false;
    for (size_t n; (n = hk_os.read(fd, bytes, sizeof bytes)) > 0;)
        for (size_t i = 0; i < n; i++)
            if (line_ends(&line, bytes[i]) && !parse_mapping_header(line.bytes, &mapping) &&
                parse_resident(line.bytes, &mapping)) {
                visit(context, &mapping);
                any = true;
            }
    hk_os.close(fd);
    return any;
}
