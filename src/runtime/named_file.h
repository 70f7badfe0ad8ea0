/* NamedFile: files that options name. In a name, %p becomes the process id, so that children do not write over their parent's. */
#ifndef HK_NAMED_FILE_H
#define HK_NAMED_FILE_H

#include "base/message.h"

/* The name as a path, a string in path->bytes. False if it is too long. */
bool hk_named_path(struct hk_text *path, const char *name);
/* Makes what was added a string. False if it is too long. */
bool hk_path_end(struct hk_text *path);

/* What `open` gives for the name; "-" is stderr. -1 on error. */
int hk_named_file(const char *name, int (*open)(const char *path));
/* Leaves stderr open. */
void hk_named_file_close(int fd);

#endif
