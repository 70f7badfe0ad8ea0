#include "support/again.h"

#include "support/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TEST_EMULATOR
#define TEST_EMULATOR
#endif

char **again(struct again *room, ...)
{
    static char *const emulator[] = {TEST_EMULATOR NULL};
    va_list arguments;
    size_t count = 0;
    ssize_t length = readlink("/proc/self/exe", room->path, sizeof room->path - 1);
    room->path[length > 0 ? length : 0] = '\0';
    for (; emulator[count] != NULL; count++) {
        room->words[count] = emulator[count];
    }
    room->words[count] = room->path;
    va_start(arguments, room);
    while (room->words[count] != NULL && ++count < sizeof room->words / sizeof room->words[0]) {
        room->words[count] = va_arg(arguments, char *);
    }
    va_end(arguments);
    return room->words;
}

int again_said(char **words, const char *option, char *said, size_t room)
{
    int ends[2], status = 0;
    size_t length = 0;
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        if (option != NULL) {
            (void)setenv(option, "1", 1);
        }
        execv(words[0], words);
        _exit(4);
    }
    close(ends[1]);
    for (ssize_t n; length < room - 1 && (n = read(ends[0], said + length, room - 1 - length)) > 0;) {
        length += (size_t)n;
    }
    said[length] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}
