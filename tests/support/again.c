#include "support/again.h"

#include <stdarg.h>
#include <stddef.h>
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
