#include "runtime/named_file.h"

#include <string.h>

#include "os/os.h"

bool hk_path_end(struct hk_text *path)
{
    if (path->used >= sizeof path->bytes)
        return false;
    path->bytes[path->used] = 0;
    return true;
}

bool hk_named_path(struct hk_text *path, const char *name)
{
    hk_text_init(path, HK_NOWHERE);
    for (const char *at = name; *at != 0; at++) {
        if (at[0] == '%' && at[1] == 'p') {
            hk_text_add(path, "%d", hk_os.process_id());
            at++;
        } else {
            hk_text_add(path, "%c", *at);
        }
    }
    return hk_path_end(path);
}

int hk_named_file(const char *name, int (*open)(const char *path))
{
    struct hk_text path;
    if (strcmp(name, "-") == 0)
        return HK_STDERR;
    return hk_named_path(&path, name) ? open(path.bytes) : -1;
}

void hk_named_file_close(int fd)
{
    if (fd > HK_STDERR)
        hk_os.close(fd);
}
