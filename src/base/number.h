/* Number: parses a decimal number at the start of a text. */
#ifndef HK_NUMBER_H
#define HK_NUMBER_H

#include "base/base.h"

/* Returns UINT64_MAX if the text does not begin with a digit. */
HK_INLINE uint64_t hk_number_in(const char *text)
{
    uint64_t value = 0;
    if (*text < '0' || *text > '9')
        return UINT64_MAX;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

#endif
