/* Reads the bounds of the break heap, to recognize blocks of another allocator. */
#include "span/foreign.h"

#include "base/bits.h"
#include "os/os.h"

/* The break heap's start is field 47 of /proc/self/stat. The second field, a name in parentheses, may hold any character. */
enum { FIELD_AFTER_NAME = 3, FIELD_START_BREAK = 47 };

static uintptr_t break_start(void)
{
    char text[1024];
    size_t length = hk_os.read_file("/proc/self/stat", text, sizeof text);
    const char *at = text + length;
    while (at > text && *at != ')')
        at--;
    for (int field = FIELD_AFTER_NAME - 1; field < FIELD_START_BREAK && *at != 0; at++)
        field += *at == ' ';
    uint64_t start = hk_number_in(at);
    return start != UINT64_MAX ? start : 0;
}

size_t hk_foreign_readable(const void *p)
{
    uintptr_t address = (uintptr_t)p;
    uintptr_t start = break_start();
    uintptr_t end = hk_os.program_break();
    return start != 0 && address >= start && address < end ? end - address : 0;
}
