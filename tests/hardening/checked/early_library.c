/* Defines an IFUNC resolver and a constructor that copy text. The resolver runs while the loader relocates libraries, before it relocates HAKMEM. */
#include <string.h>

int early_number(void);
extern int early_bytes, early_length, early_overlap, early_constructed;
int early_bytes, early_length, early_overlap, early_constructed;

static int chosen(void) { return 42; }

static int copied(void)
{
    char from[64], to[64];
    memset(from, 'a', sizeof from);
    memcpy(to, from, sizeof to);
    for (int i = 0; i < 64; i++)
        if (to[i] != 'a')
            return i;
    return 64;
}

__attribute__((used)) static int (*resolve(void))(void)
{
    char text[32];
    early_bytes = copied();
    strcpy(text, "early");
    strcat(text, " text");
    early_length = (int)(stpcpy(text, text + 6) - text);
    memcpy(text, "0123456789", 11);
    memmove(text + 1, text, 10);
    early_overlap = strncmp(text, "0012345678", 10) == 0 && text[10] == '9';
    return chosen;
}

int early_number(void) __attribute__((ifunc("resolve")));

__attribute__((constructor)) static void construct(void) { early_constructed = copied(); }
