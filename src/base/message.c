/* Formats numbers and text into a buffer, and writes the buffer to a file descriptor. */
#include "base/message.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include "os/os.h"

enum { WAS_CLOSED = 1, WAS_OPEN, FOREIGN_MOST = 300 };

/* Identifies the file to which descriptor 2 referred when the library was loaded. The program may open another file as descriptor 2 later. */
static struct {
    _Atomic int xstate; /* 0 until the file is identified */
    struct hk_file_id id;
} stderr_at_start HK_EACH_PROCESS_DATA;

HK_EACH_PROCESS void hk_stderr_begin(void)
{
    hk_store_release(stderr_at_start.xstate, hk_os_identify(HK_STDERR, &stderr_at_start.id) ? WAS_OPEN : WAS_CLOSED);
}

bool hk_stderr_is_there(void)
{
    struct hk_file_id now;
    if (hk_load_acquire(stderr_at_start.xstate) == 0)
        hk_stderr_begin(); /* this message is printed before HAKMEM's start */
    return hk_load(stderr_at_start.xstate) == WAS_OPEN && hk_os_identify(HK_STDERR, &now) &&
           now.device == stderr_at_start.id.device && now.inode == stderr_at_start.id.inode;
}

void hk_put(int fd, const void *bytes, size_t size)
{
    int saved = errno;
    if (fd != HK_STDERR || hk_stderr_is_there())
        hk_os.write(fd == HK_STDERR_ASKED_FOR ? HK_STDERR : fd, bytes, size);
    errno = saved;
}

static void put_char(struct hk_text *text, char c)
{
    if (text->used == sizeof text->bytes) {
        if (text->fd == HK_NOWHERE)
            return;
        hk_text_flush(text);
    }
    text->bytes[text->used++] = c;
}

static void put_string(struct hk_text *text, const char *s, size_t width)
{
    for (s = s != NULL ? s : "(null)"; *s != 0; s++, width -= width > 0)
        put_char(text, *s);
    for (; width > 0; width--)
        put_char(text, ' ');
}

size_t hk_utf8_bytes(const char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t first = (unsigned char)*s, value = first;
    size_t bytes = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
    if (bytes > 1)
        value &= 0x7fu >> bytes;
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (uint32_t)(s[i] & 0x3f);
    }
    return value < least[bytes] || value > 0x10ffff || value >> 11 == 0xd800 >> 11 ? 0 : bytes;
}

/* Returns true if a terminal can show the character, that is, a printable byte of ASCII, or a longer character beyond U+009F. */
static bool is_printable(const char *s, size_t bytes)
{
    unsigned char first = (unsigned char)s[0];
    return bytes > 1 ? first != 0xc2 || (unsigned char)s[1] >= 0xa0 : bytes == 1 && first >= ' ' && first < 0x7f;
}

static void put_number(struct hk_text *text, uint64_t value, unsigned base, size_t width)
{
    char digits[24]; /* no number has more digits, and no caller passes a larger width */
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (n < width && n < sizeof digits)
        digits[n++] = ' ';
    while (n > 0)
        put_char(text, digits[--n]);
}

/* Adds a string from a user or a file. The string ends at a zero byte or after `length` bytes. Cuts it after `most` bytes, and then adds `...`. */
static void put_foreign(struct hk_text *text, const char *s, size_t length, size_t most)
{
    for (size_t used = 0; used < length && s[used] != 0;) {
        if (used >= most) {
            put_string(text, "...", 0);
            return;
        }
        size_t bytes = hk_utf8_bytes(s + used);
        bool printable = is_printable(s + used, bytes);
        for (bytes += bytes == 0; bytes > 0; bytes--, used++)
            if (printable)
                put_char(text, s[used]);
            else {
                put_string(text, "\\x", 0);
                put_number(text, (unsigned char)s[used] >> 4, 16, 0);
                put_number(text, s[used] & 15, 16, 0);
            }
    }
}

static void put_signed(struct hk_text *text, int64_t value)
{
    if (value < 0)
        put_char(text, '-');
    put_number(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, 0);
}

/* Adds the next argument in the form that `letter` says. `wide` is true after the length modifiers z and l. */
static void put_conversion(struct hk_text *text, char letter, bool wide, size_t width, va_list *args)
{
    switch (letter) {
    case 's': put_string(text, va_arg(*args, const char *), width); break;
    case 'c': put_char(text, (char)va_arg(*args, int)); break;
    case 'd': put_signed(text, wide ? va_arg(*args, long) : va_arg(*args, int)); break;
    case 'u': put_number(text, wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), 10, width); break;
    case 'x': put_number(text, wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), 16, width); break;
    default: put_char(text, letter); break;
    }
}

/* Returns the width or the precision at *f in the format, and moves *f behind it. If `*` stands there, returns the next argument. */
static size_t take_number(const char **f, va_list *args)
{
    size_t number = 0;
    if (**f == '*') {
        ++*f;
        return (size_t)va_arg(*args, int);
    }
    for (; **f >= '0' && **f <= '9'; ++*f)
        number = number * 10 + (size_t)(**f - '0');
    return number;
}

/* Adds the string argument of %.300s or %.*s. Returns the place of the letter s in the format. */
static const char *put_with_precision(struct hk_text *text, const char *f, va_list *args)
{
    bool counted = *++f == '*';
    size_t number = take_number(&f, args), length = counted ? number : SIZE_MAX, most = counted ? FOREIGN_MOST : number;
    put_foreign(text, va_arg(*args, const char *), length, most);
    return f;
}

static void add_all(struct hk_text *text, const char *format, va_list *args)
{
    for (const char *f = format; *f != 0; f++) {
        if (*f != '%') {
            put_char(text, *f);
            continue;
        }
        bool wide = false;
        f += f[1] == '-' ? 2 : 1;
        size_t width = take_number(&f, args);
        for (; *f == 'z' || *f == 'l'; f++)
            wide = true;
        if (*f == 0)
            break;
        if (*f == '.')
            f = put_with_precision(text, f, args);
        else
            put_conversion(text, *f, wide, width, args);
    }
}

void hk_text_add(struct hk_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_all(text, format, &args);
    va_end(args);
}

void hk_text_flush(struct hk_text *text)
{
    if (text->fd != HK_NOWHERE)
        hk_put(text->fd, text->bytes, text->used);
    text->used = 0;
}

static void put_message(const char *format, va_list *args)
{
    struct hk_text text = {.fd = HK_STDERR};
    put_string(&text, "hakmem: ", 0);
    add_all(&text, format, args);
    put_char(&text, '\n');
    hk_text_flush(&text);
}

void hk_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_message(format, &args);
    va_end(args);
}

_Atomic bool hk_is_aborting;
void (*hk_last_words)(void);

HK_COLD void hk_fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_message(format, &args);
    va_end(args);
    hk_store(hk_is_aborting, true);
    if (hk_last_words != NULL)
        hk_last_words();
    abort();
}
