/* Linux: declares those functions of the table hk_os that os_linux.c does not define itself. */
#pragma once

#include <errno.h>
#include "os/os.h"

/* KEEPING_ERRNO(call) evaluates the call, restores errno, and returns the value of the call. */
#define KEEPING_ERRNO(call)                                                                                            \
    ({                                                                                                                 \
        int errno_before = errno;                                                                                      \
        __typeof__(call) value = (call);                                                                               \
        errno = errno_before;                                                                                          \
        value;                                                                                                         \
    })

void hk_linux_write(int fd, const void *bytes, size_t size);
size_t hk_linux_read_file(const char *path, char *bytes, size_t size);
int hk_linux_open(const char *path);
size_t hk_linux_read(int fd, char *bytes, size_t size);

bool hk_linux_readable(uintptr_t address);
bool hk_linux_code_at(uintptr_t address, struct hk_code *code);
