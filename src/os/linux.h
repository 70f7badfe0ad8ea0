/* Linux: the parts of the table hk_os that are in files of their own. */
#ifndef HK_LINUX_H
#define HK_LINUX_H

#include <errno.h>

#include "os/os.h"

/* The value of a call; errno stays as it is. */
#define KEEPING_ERRNO(call)                                                                                            \
    ({                                                                                                                 \
        int errno_before = errno;                                                                                      \
        __typeof__(call) value = (call);                                                                               \
        errno = errno_before;                                                                                          \
        value;                                                                                                         \
    })

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
size_t hk_linux_read_at(int fd, uint64_t offset, void *bytes, size_t size);

bool hk_linux_purge(void *p, size_t size);
size_t hk_linux_page_size(void);
bool hk_linux_bar(void *p, size_t size);
bool hk_linux_unbar(void *p, size_t size);
struct hk_fault hk_linux_fault_of(const void *context);

bool hk_linux_catch_signal(int number, void (*handler)(int number, siginfo_t *info, void *context));
void hk_linux_default_signal(int number, siginfo_t *info);
bool hk_linux_catch_faults(void (*handler)(int number, siginfo_t *info, void *context));
void hk_linux_pass_fault(int number, siginfo_t *info, void *context);
void hk_linux_leave_fault(int number);

bool hk_linux_readable(uintptr_t address);
bool hk_linux_code_at(uintptr_t address, struct hk_code *code);
bool hk_linux_in_loader(const void *code);

#endif
