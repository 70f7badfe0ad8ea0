/* Json: checks whether a text is one JSON value (RFC 8259) in UTF-8, and reads numbers from the text. */
#ifndef TEST_FUZZ_JSON_H
#define TEST_FUZZ_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* Returns NULL, or the address of the first byte that is not valid JSON. */
const char *json_fault(const char *text);
/* Returns the number after the first "key": in the text. Returns UINT64_MAX if the text has no such number. */
uint64_t json_number(const char *text, const char *key);

#endif
