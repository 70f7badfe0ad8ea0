/* Log: creates the file of a process's recording, and gives chunks of this file to the threads of the process. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "figures.h"
#include "next.h"
#include "recorder.h"

#define FOLDER_VARIABLE "HAKRECORD_FOLDER"
#define SAMPLE_VARIABLE "HAKRECORD_SAMPLE"
enum { PATH_ROOM = 3000, NAMES_TRIED = 1000, LOOK_EVERY = 16 /* the figures are updated once in so many chunks */ };

static struct rec_shared unborn = {.state = REC_OFF}; /* used until the constructor has run */
struct rec_shared *rec_shared = &unborn;
_Thread_local struct rec_self rec_self __attribute__((tls_model("initial-exec")));
uint64_t rec_large_seen[1024];

static char folder[PATH_ROOM], file_path[PATH_ROOM + 64];
static uint32_t sample_wanted;
static pthread_key_t key;

/* Returns a text for errno. Does not use strerror(), because strerror() may allocate. Since version 2.32, glibc has a function that never allocates.
 * With other C libraries, the text is the number of the error. */
static const char *name_of_error(void)
{
#ifdef HAKRECORD_NAMES_ERRORS
    return strerrordesc_np(errno);
#else
    static char name[32];
    (void)snprintf(name, sizeof name, "error %d", errno);
    return name;
#endif
}

/* The file that was open as descriptor 2 when the program began, or zeros if there was none. If the program has closed descriptor 2, the number may
 * now belong to another file, such as a database. The recorder must not write to that file. */
static struct stat stderr_at_start;

static bool stderr_is_there(void)
{
    struct stat file;
    return fstat(STDERR_FILENO, &file) == 0 && file.st_dev == stderr_at_start.st_dev &&
           file.st_ino == stderr_at_start.st_ino;
}

void rec_say(const char *what, const char *why)
{
    char line[PATH_ROOM + 256];
    int length = snprintf(line, sizeof line, "hakmem record: %s%s%s%s%s\n", what, *what != '\0' ? ": " : "", why,
                          errno != 0 ? ": " : "", errno != 0 ? name_of_error() : "");
    if (length > 0 && stderr_is_there() && write(STDERR_FILENO, line, (size_t)length) < 0)
        return; /* the failure cannot be reported */
}

size_t rec_page_size(void) { return getauxval(AT_PAGESZ); }

static int64_t process(void) { return syscall(SYS_getpid); }

/* Lengthens the file, maps the beginning of the new part, and closes the file. Calls fallocate(), because it fails if the disk is full. Without
 * fallocate(), a later write to the mapping would raise SIGBUS. Returns NULL if the file is not open or cannot grow. */
static void *grow_file(int file, size_t offset, size_t size, size_t mapped)
{
    void *part = MAP_FAILED;
    if (file < 0)
        return NULL;
    if (fallocate(file, 0, (off_t)offset, (off_t)size) == 0)
        part = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, (off_t)offset);
    close(file);
    return part == MAP_FAILED ? NULL : part;
}

/* Creates the file of the process. The name of the file is the process id. If this file exists, adds a second number, because after exec the
 * process has a new recording but the same process id. */
static int create_file(int64_t pid)
{
    for (unsigned i = 1; i <= NAMES_TRIED; i++) {
        snprintf(file_path, sizeof file_path, i == 1 ? "%s/%ld.hkrec" : "%s/%ld-%u.hkrec", folder, (long)pid, i);
        int file = open(file_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static void fill_head(struct rec_head *head, int64_t pid)
{
    head->head_bytes = (uint32_t)REC_HEAD_BYTES;
    head->chunk_bytes = (uint32_t)REC_CHUNK_BYTES;
    head->sample = sample_wanted;
    head->pid = (uint64_t)pid;
    head->began_ns = rec_clock_ns(CLOCK_REALTIME);
    if (readlink("/proc/self/exe", head->program, sizeof head->program - 1) < 0)
        head->program[0] = '\0';
    rec_figures_first(head);
    head->magic = REC_MAGIC;
}

static struct rec_head *begin_file(int64_t pid)
{
    struct rec_head *head = grow_file(create_file(pid), 0, REC_HEAD_BYTES, rec_page_size());
    if (head == NULL)
        rec_say(file_path, "this process is not recorded");
    else
        fill_head(head, pid);
    return head;
}

/* Creates the file at the first event of a process. One thread creates it, and other threads wait. */
static void start(struct rec_shared *shared)
{
    uint32_t expected = REC_UNBORN;
    if (!__atomic_compare_exchange_n(&shared->state, &expected, REC_STARTING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == REC_STARTING)
            sched_yield();
        return;
    }
    shared->pid = process();
    shared->sample = sample_wanted;
    shared->head = begin_file(shared->pid);
    __atomic_store_n(&shared->state, shared->head != NULL ? REC_RUNNING : REC_OFF, __ATOMIC_RELEASE);
}

static void stop(struct rec_shared *shared)
{
    if (__atomic_exchange_n(&shared->state, REC_OFF, __ATOMIC_ACQ_REL) != REC_RUNNING)
        return;
    shared->head->lost = 1;
    rec_say(file_path, "the recording stops here");
}

/* ---- chunks ------------------------------------------------------------ */

static struct rec_chunk *map_chunk(struct rec_shared *shared)
{
    uint64_t number = __atomic_fetch_add(&shared->next_chunk, 1, __ATOMIC_RELAXED);
    size_t offset = REC_HEAD_BYTES + number * REC_CHUNK_BYTES;
    struct rec_chunk *chunk = grow_file(open(file_path, O_RDWR | O_CLOEXEC), offset, REC_CHUNK_BYTES, REC_CHUNK_BYTES);
    if (chunk == NULL)
        return NULL;
    chunk->used = sizeof *chunk;
    chunk->at_ns = rec_clock_ns(CLOCK_MONOTONIC);
    chunk->magic = REC_CHUNK_MAGIC;
    __atomic_fetch_add(&shared->head->chunks, 1, __ATOMIC_RELEASE);
    if (number < LOOK_EVERY || number % LOOK_EVERY == 0)
        rec_figures_look(shared->head);
    return chunk;
}

static struct rec_chunk *detach_chunk(struct rec_self *self)
{
    struct rec_chunk *chunk = self->chunk;
    self->chunk = NULL;
    self->at = self->end = NULL;
    return chunk;
}

static void close_chunk(struct rec_self *self)
{
    struct rec_chunk *chunk = detach_chunk(self);
    if (chunk == NULL)
        return;
    if (self->pid == rec_shared->pid) { /* otherwise, the chunk belongs to the parent of this process */
        chunk->sum = rec_sum(chunk);
        __atomic_store_n(&chunk->closed, 1, __ATOMIC_RELEASE);
    }
    munmap(chunk, REC_CHUNK_BYTES);
}

static struct rec_chunk *take_spare(struct rec_shared *shared)
{
    for (unsigned i = 0; i < REC_SPARE_CHUNKS; i++) {
        struct rec_chunk *chunk = __atomic_load_n(&shared->spare[i], __ATOMIC_RELAXED);
        if (chunk != NULL &&
            __atomic_compare_exchange_n(&shared->spare[i], &chunk, NULL, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return chunk;
    }
    return NULL;
}

REC_COLD void rec_release(struct rec_self *self)
{
    if (self->chunk != NULL)
        self->chunk->used = (uint64_t)(self->at - (uint8_t *)self->chunk);
    for (unsigned i = 0; i < REC_SPARE_CHUNKS && self->chunk != NULL; i++) {
        struct rec_chunk *none = NULL;
        if (__atomic_compare_exchange_n(&rec_shared->spare[i], &none, self->chunk, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            detach_chunk(self);
    }
    close_chunk(self);
}

/* Writes an event to the chunk. The event says that the next events are those of this thread. */
static void name_thread(struct rec_self *self)
{
    uint64_t from = __atomic_load_n(&rec_shared->order, __ATOMIC_SEQ_CST);
    struct rec_event event = {.order = 1, .address = from, .size = self->number, .kind = REC_THREAD};
    struct rec_base none = {0, 0};
    self->at = rec_encode(self->at, &none, &event);
    self->base = (struct rec_base){from - 1, 0};
}

static bool take_chunk(struct rec_shared *shared, struct rec_self *self)
{
    struct rec_chunk *chunk = take_spare(shared);
    if (chunk == NULL)
        chunk = map_chunk(shared);
    if (chunk == NULL)
        return false;
    self->chunk = chunk;
    self->end = (uint8_t *)chunk + REC_CHUNK_BYTES;
    self->at = (uint8_t *)chunk + chunk->used;
    if ((size_t)(self->end - self->at) < 2 * REC_EVENT_ROOM)
        return close_chunk(self), take_chunk(shared, self);
    name_thread(self);
    return true;
}

static bool enter_process(struct rec_shared *shared, struct rec_self *self)
{
    if (self->pid == shared->pid)
        return true;
    close_chunk(self);
    self->pid = shared->pid;
    self->number = __atomic_fetch_add(&shared->threads, 1, __ATOMIC_RELAXED);
    return pthread_setspecific(key, self) == 0 || self->ended;
}

static bool prepare(struct rec_shared *shared, struct rec_self *self)
{
    if (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) <= REC_STARTING)
        start(shared);
    if (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) != REC_RUNNING || !enter_process(shared, self))
        return false;
    if ((size_t)(self->end - self->at) >= REC_EVENT_ROOM)
        return true;
    close_chunk(self);
    if (take_chunk(shared, self))
        return true;
    stop(shared);
    return false;
}

REC_COLD bool rec_prepare(struct rec_self *self)
{
    struct rec_shared *shared = rec_shared;
    if (shared->state == REC_OFF)
        return false;
    int error = errno;
    bool prepared = prepare(shared, self);
    errno = error;
    return prepared;
}

/* ---- the life of threads and of the process ----------------------------- */

static void end_thread(void *argument)
{
    struct rec_self *self = argument;
    bool inside = self->inside;
    self->inside = true;
    if (self->chunk != NULL && !self->ended)
        rec_note_event(REC_THREAD_END, 0, 0, 0, false);
    self->ended = true;
    if (self->chunk != NULL && self->pid == rec_shared->pid)
        rec_release(self);
    self->inside = inside;
}

void rec_finish(void)
{
    struct rec_shared *shared = rec_shared;
    if (shared->state != REC_RUNNING || shared->pid != process())
        return; /* a child after vfork has another process id, but uses the memory of its parent */
    int error = errno;
    rec_figures_look(shared->head);
    shared->head->ended = 1;
    errno = error;
}

static const char *value_of(char **variables, const char *name)
{
    size_t length = strlen(name);
    for (; variables != NULL && *variables != NULL; variables++)
        if (strncmp(*variables, name, length) == 0 && (*variables)[length] == '=')
            return *variables + length + 1;
    return NULL;
}

static bool take_options(char **variables)
{
    const char *to = value_of(variables, FOLDER_VARIABLE), *sample = value_of(variables, SAMPLE_VARIABLE);
    if (getauxval(AT_SECURE) != 0 || to == NULL || to[0] != '/' || strlen(to) >= sizeof folder)
        return false;
    memcpy(folder, to, strlen(to) + 1);
    unsigned long one_in = sample != NULL ? strtoul(sample, NULL, 10) : 1;
    sample_wanted = (uint32_t)(one_in < 1 ? 1 : one_in > REC_SAMPLE_MOST ? REC_SAMPLE_MOST : one_in);
    return true;
}

static struct rec_shared *map_shared(void)
{
    size_t bytes = rec_page_size();
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0 ? page : NULL;
}

/* Runs before the constructor of the C library, because the recorder is linked with -z initfirst. Therefore `environ` may still be NULL. */
__attribute__((constructor)) static void begin(int count, char **arguments, char **variables)
{
    (void)count;
    (void)arguments;
    (void)fstat(STDERR_FILENO, &stderr_at_start);
    errno = 0;
    if (!rec_find_next())
        return rec_say("", "no allocator below, or no room: nothing is recorded");
    if (!take_options(environ != NULL ? environ : variables))
        return rec_say("", "preload it by `hakmem record`: " FOLDER_VARIABLE " is not set to a folder");
    struct rec_shared *shared = map_shared();
    if (shared == NULL || pthread_key_create(&key, end_thread) != 0)
        return rec_say("", "nothing is recorded");
    rec_shared = shared;
}

__attribute__((destructor)) static void finish(void) { rec_finish(); }
