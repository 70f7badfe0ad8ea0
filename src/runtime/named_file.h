/* NamedFile: opens files that options name. %p in a name becomes the process id, so that a child does not overwrite its
 * parent's file. */
#ifndef HK_NAMED_FILE_H
#define HK_NAMED_FILE_H

#include "base/message.h"

/* Expands the name into path->bytes, with a terminating NUL. False if it is too long. */
bool hk_named_path(struct hk_text *path, const char *name);
/* Terminates the text with NUL. False if it is too long. */
bool hk_path_end(struct hk_text *path);

/* Opens the named file with `open` and returns its descriptor, HK_STDERR for "-", -1 on error. */
int hk_named_file(const char *name, int (*open)(const char *path));
/* Closes the file, except standard error. */
void hk_named_file_close(int fd);

#endif
