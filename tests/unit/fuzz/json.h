/* Json: checks whether a text is one JSON value as in RFC 8259, in UTF-8, and reads numbers from it. */
#ifndef TEST_FUZZ_JSON_H
#define TEST_FUZZ_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* Returns NULL, or the place where the text stops being valid JSON. */
const char *json_fault(const char *text);
/* Returns the number after the first "key": in the text. Returns UINT64_MAX if there is none. */
uint64_t json_number(const char *text, const char *key);

#endif
