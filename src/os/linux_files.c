/* Opens, reads, writes and renames files with raw system calls. The C library's functions are cancellation points, and malloc must not be one. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "os/linux.h"

/* Never returns a descriptor from 0 to 2. If a program has closed its standard streams, its output would end up in HAKMEM's file. */
static int open_file(const char *path, int flags)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0644);
    if (fd < 0 || fd > STDERR_FILENO)
        return fd < 0 ? -errno : fd;
    int up = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), result = up >= 0 ? up : -errno;
    (void)syscall(SYS_close, fd);
    return result;
}

/* Replaces strerror(), which may allocate and depends on the locale. The texts are arrays, because pointers would need relocations. */
const char *hk_os_error(int result)
{
    static const struct {
        int number;
        char text[28];
    } errors[] = {{ENOENT, "no such file or folder"},
                  {EACCES, "permission denied"},
                  {EPERM, "permission denied"},
                  {ENOTDIR, "a part of it is no folder"},
                  {EISDIR, "it is a folder"},
                  {EROFS, "the file system is read-only"},
                  {ENOSPC, "no space is left"},
                  {EDQUOT, "the quota is exhausted"},
                  {EMFILE, "too many files are open"},
                  {ENFILE, "too many files are open"},
                  {ELOOP, "too many symbolic links"},
                  {ENAMETOOLONG, "the name is too long"},
                  {ENOMEM, "no memory"},
                  {ETXTBSY, "it is a running program"},
                  {0, "the system refuses it"}};
    unsigned row = 0;
    while (errors[row].number != 0 && errors[row].number != -result)
        row++;
    return errors[row].text;
}

/* Reads or writes. If a signal interrupts the call, repeats it. Returns the number of bytes, which is 0 on error. Keeps errno. */
static size_t transfer(long call, int fd, const void *bytes, size_t size)
{
    int saved_errno = errno;
    ssize_t n;
    while ((n = syscall(call, fd, bytes, size)) < 0 && errno == EINTR) {}
    errno = saved_errno;
    return n > 0 ? (size_t)n : 0;
}

void hk_linux_write(int fd, const void *bytes, size_t size)
{
    size_t n;
    for (const char *at = bytes; size > 0 && (n = transfer(SYS_write, fd, at, size)) > 0; at += n)
        size -= n;
}

size_t hk_linux_read(int fd, char *bytes, size_t size) { return transfer(SYS_read, fd, bytes, size); }

int hk_os_create(const char *path) { return KEEPING_ERRNO(open_file(path, O_WRONLY | O_CREAT | O_TRUNC)); }
int hk_os_append(const char *path) { return KEEPING_ERRNO(open_file(path, O_WRONLY | O_CREAT | O_APPEND)); }
void hk_os_close(int fd) { (void)KEEPING_ERRNO(syscall(SYS_close, fd)); }

HK_EACH_PROCESS bool hk_os_identify(int fd, struct hk_file_id *id)
{
    struct stat file;
    int r = KEEPING_ERRNO((int)syscall(SYS_fstat, fd, &file));
    if (r == 0)
        *id = (struct hk_file_id){file.st_dev, file.st_ino};
    return r == 0;
}

int hk_linux_open(const char *path) { return KEEPING_ERRNO(open_file(path, O_RDONLY)); }

size_t hk_linux_read_file(const char *path, char *bytes, size_t size)
{
    int fd = hk_linux_open(path);
    size_t used = 0;
    if (fd >= 0) {
        for (size_t n; used < size - 1 && (n = hk_linux_read(fd, bytes + used, size - 1 - used)) > 0;)
            used += n;
        hk_os_close(fd);
    }
    bytes[used] = 0;
    return used;
}

size_t hk_os_read_at(int fd, uint64_t offset, void *bytes, size_t size)
{
    ssize_t n = KEEPING_ERRNO(syscall(SYS_pread64, fd, bytes, size, offset));
    return n > 0 ? (size_t)n : 0;
}

bool hk_os_is_replaceable(const char *path)
{
    struct stat what;
    return KEEPING_ERRNO(syscall(SYS_newfstatat, AT_FDCWD, path, &what, AT_SYMLINK_NOFOLLOW) == 0
                             ? S_ISREG(what.st_mode)
                             : errno == ENOENT);
}

bool hk_os_rename(const char *from, const char *to)
{
    return KEEPING_ERRNO((int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)) == 0;
}

bool hk_os_overwrite(const void *constants, const void *bytes, size_t size)
{
    int fd = KEEPING_ERRNO(open_file("/proc/self/mem", O_WRONLY));
    if (fd < 0)
        return false;
    bool done = KEEPING_ERRNO(syscall(SYS_pwrite64, fd, bytes, size, (off_t)(uintptr_t)constants)) == (long)size;
    hk_os_close(fd);
    return done;
}

void hk_os_remove(const char *path) { (void)KEEPING_ERRNO((int)syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }
