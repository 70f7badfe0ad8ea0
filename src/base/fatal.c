#include "base/fatal.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/say.h"

HK_COLD void hk_fatal(const char *format, ...)
{
    struct hk_text text;
    hk_text_init(&text, 2);
    hk_text_add(&text, "hakmem: ");
    va_list args;
    va_start(args, format);
    hk_text_vadd(&text, format, args);
    va_end(args);
    hk_text_add(&text, "\n");
    hk_text_flush(&text);
    hk_locks_give_way();
    abort();
}

HK_COLD void hk_assert_failed(const char *expression, const char *file, int line)
{
    hk_fatal("assertion failed: %s (%s:%d)", expression, file, line);
}
