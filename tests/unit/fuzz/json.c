#include "unit/fuzz/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40 };

static const char *value(const char *at, int depth);

static const char *space(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Returns the end of a UTF-8 character. Returns NULL if the character is invalid, not in its shortest form, or a surrogate. */
static const char *wide_character(const unsigned char *at)
{
    unsigned c = *at, second = at[1],
             lowest = c == 0xe0   ? 0xa0
                      : c == 0xf0 ? 0x90
                                  : 0x80,
             highest = c == 0xed   ? 0x9f
                       : c == 0xf4 ? 0x8f
                                   : 0xbf;
    if (c < 0xc2 || c > 0xf4 || second < lowest || second > highest)
        return NULL;
    for (unsigned i = 2, bytes = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return NULL;
    return (const char *)at + (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2);
}

static const char *character(const char *at)
{
    unsigned char c = (unsigned char)*at;
    return c >= 0x80 ? wide_character((const unsigned char *)at) : c >= 0x20 ? at + 1 : NULL;
}

static const char *escape(const char *at)
{
    if (*at == 'u')
        return strspn(at + 1, "0123456789abcdefABCDEF") >= 4 ? at + 5 : NULL;
    return *at != 0 && strchr("\"\\/bfnrt", *at) != NULL ? at + 1 : NULL;
}

static const char *string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while (at != NULL && *at != '"')
        at = *at == '\\' ? escape(at + 1) : character(at);
    return at != NULL ? at + 1 : NULL;
}

static const char *digits(const char *at)
{
    size_t count = strspn(at, "0123456789");
    return count > 0 ? at + count : NULL;
}

static const char *number(const char *at)
{
    at += *at == '-';
    const char *end = *at == '0' ? at + 1 : digits(at);
    if (end != NULL && *end == '.')
        end = digits(end + 1);
    if (end != NULL && (*end == 'e' || *end == 'E'))
        end = digits(end + 1 + (end[1] == '+' || end[1] == '-'));
    return end;
}

static const char *member(const char *at, int depth, bool keyed)
{
    if (keyed) {
        at = string(at);
        at = at != NULL ? space(at) : NULL;
        at = at != NULL && *at == ':' ? space(at + 1) : NULL;
    }
    return at != NULL ? value(at, depth) : NULL;
}

static const char *members(const char *at, int depth, bool keyed)
{
    char end = keyed ? '}' : ']';
    at = space(at + 1);
    if (*at == end)
        return at + 1;
    for (;;) {
        at = member(at, depth + 1, keyed);
        at = at != NULL ? space(at) : NULL;
        if (at == NULL || *at == end)
            return at != NULL ? at + 1 : NULL;
        if (*at != ',')
            return NULL;
        at = space(at + 1);
    }
}

static const char *value(const char *at, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    if (depth > DEEPEST)
        return NULL;
    for (size_t i = 0; i < 3; i++)
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    return *at == '{'   ? members(at, depth, true)
           : *at == '[' ? members(at, depth, false)
           : *at == '"' ? string(at)
                        : number(at);
}

const char *json_fault(const char *text)
{
    const char *end = value(space(text), 0);
    if (end == NULL)
        return text;
    end = space(end);
    return *end == 0 ? NULL : end;
}

uint64_t json_number(const char *text, const char *key)
{
    char quoted[64];
    int length = snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(text, quoted);
    return at != NULL ? strtoull(at + length, NULL, 10) : UINT64_MAX;
}
