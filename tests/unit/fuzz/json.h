/* Json: is a text one JSON value, as RFC 8259 has it, in UTF-8; and the numbers in it. */
#ifndef TEST_FUZZ_JSON_H
#define TEST_FUZZ_JSON_H

#include <stdbool.h>
#include <stdint.h>

/* NULL, or where it ceases to be so. */
const char *json_fault(const char *text);
/* The number behind the first "key": from `text` on; UINT64_MAX if there is none. */
uint64_t json_number(const char *text, const char *key);

#endif
