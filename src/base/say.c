#include "base/say.h"

#include <errno.h>

#include "os/os.h"

static void put_char(struct hk_text *text, char c)
{
    if (text->used == sizeof text->bytes) {
        if (text->fd < 0)
            return;
        hk_text_flush(text);
    }
    text->bytes[text->used++] = c;
}

static void put_string(struct hk_text *text, const char *s)
{
    for (s = s != NULL ? s : "(null)"; *s != 0; s++)
        put_char(text, *s);
}

static void put_number(struct hk_text *text, uint64_t value, unsigned base)
{
    char digits[24];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (n > 0)
        put_char(text, digits[--n]);
}

static void put_signed(struct hk_text *text, int64_t value)
{
    if (value < 0)
        put_char(text, '-');
    put_number(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

/* `wide` is true after the length letters z or l. */
static void put_conversion(struct hk_text *text, char letter, bool wide, va_list *args)
{
    switch (letter) {
    case 's': put_string(text, va_arg(*args, const char *)); break;
    case 'c': put_char(text, (char)va_arg(*args, int)); break;
    case 'd': put_signed(text, wide ? va_arg(*args, long) : va_arg(*args, int)); break;
    case 'u': put_number(text, wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), 10); break;
    case 'x': put_number(text, wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), 16); break;
    default: put_char(text, letter); break;
    }
}

void hk_text_vadd(struct hk_text *text, const char *format, va_list args)
{
    va_list copy;
    va_copy(copy, args);
    for (const char *f = format; *f != 0; f++) {
        if (*f != '%') {
            put_char(text, *f);
            continue;
        }
        bool wide = false;
        for (f++; *f == 'z' || *f == 'l'; f++)
            wide = true;
        if (*f == 0)
            break;
        put_conversion(text, *f, wide, &copy);
    }
    va_end(copy);
}

void hk_text_add(struct hk_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hk_text_vadd(text, format, args);
    va_end(args);
}

void hk_text_flush(struct hk_text *text)
{
    int saved = errno;
    if (text->fd >= 0)
        hk_os.write(text->fd, text->bytes, text->used);
    text->used = 0;
    errno = saved;
}

void hk_vsay(const char *format, va_list args)
{
    struct hk_text text;
    hk_text_init(&text, HK_STDERR);
    put_string(&text, "hakmem: ");
    hk_text_vadd(&text, format, args);
    put_char(&text, '\n');
    hk_text_flush(&text);
}

void hk_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hk_vsay(format, args);
    va_end(args);
}
