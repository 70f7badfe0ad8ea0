/* Messages: the texts of messages.def, HK_TEXT_<name>. An array is a format that the compiler checks, and needs no relocation.
 * Never  a pointer in a table: the loader would have to relocate each. */
#ifndef HK_MESSAGES_H
#define HK_MESSAGES_H

#define HK_MESSAGE(name, then, format, meaning) static const char HK_TEXT_##name[] __attribute__((unused)) = format;
#include "base/messages.def"
#undef HK_MESSAGE

#endif
