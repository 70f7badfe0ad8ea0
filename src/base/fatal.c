/* Ends the program with one line on stderr. */
#include "base/fatal.h"

#include <stdlib.h>

#include "base/message.h"

_Atomic bool hk_is_aborting;
void (*hk_last_words)(void);

HK_COLD void hk_fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hk_vmessage(format, args);
    va_end(args);
    hk_store(hk_is_aborting, true);
    if (hk_last_words != NULL)
        hk_last_words();
    abort();
}

HK_COLD void hk_assert_failed(const char *expression, const char *file, int line)
{
    hk_fatal(HK_TEXT_assertion, expression, file, line);
}
