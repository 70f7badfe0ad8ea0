/* Linux: the parts of the table hk_os that are in files of their own. */
#ifndef HK_LINUX_H
#define HK_LINUX_H

#include <errno.h>

#include "os/os.h"

#define KEEPING_ERRNO(statement)                                                                                       \
    do {                                                                                                               \
        int saved_errno = errno;                                                                                       \
        statement;                                                                                                     \
        errno = saved_errno;                                                                                           \
    } while (0)

void hk_linux_write(int fd, const void *bytes, size_t size);
int hk_linux_create(const char *path);
int hk_linux_append(const char *path);
void hk_linux_close(int fd);
bool hk_linux_identify(int fd, struct hk_file_id *id);
size_t hk_linux_read_file(const char *path, char *bytes, size_t size);
int hk_linux_open(const char *path);
size_t hk_linux_read(int fd, char *bytes, size_t size);
bool hk_linux_is_replaceable(const char *path);
bool hk_linux_rename(const char *from, const char *to);

#endif
