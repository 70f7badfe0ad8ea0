/* NamedFile: opens the files that options name.
 *
 * In a name, %p becomes the process id. DIR/ becomes DIR/PID.json (a report; other files have other endings). In a child process, NAME.ENDING becomes
 * NAME.PID.ENDING, so that a child does not overwrite its parent's file. This does not happen if the name contains %p or ends with a slash.
 * A process is a child if it was forked, or if its parent has the same LD_PRELOAD, and the same value of the first option that names a file.
 * Owns     This file owns the flag that says whether this process is a child.
 * Threads  hk_named_files_begin is called before a second thread exists. Any thread may call the other functions. */
#pragma once

#include "base/message.h"

/* Finds out if this process is a child. Called once, after the options have been read. Makes system calls only if an option names a file. */
void hk_named_files_begin(void);
void hk_named_files_fork_child(void);
bool hk_named_files_wanted(void);

/* Expands the name into path->bytes, which end with NUL. `ending` is the ending of the file that is made if the name is a folder. It is NULL if the
 * name does not come from an option. Returns false if the path is too long. */
bool hk_named_path(struct hk_text *path, const char *name, const char *ending);
/* Ends the text with NUL. Returns false if the text is too long. */
bool hk_path_end(struct hk_text *path);

/* Writes a file. Returns 0, a negative error number, or HK_FILE_STAYS to keep the former file. A file that is written in place cannot be kept. */
enum { HK_FILE_STAYS = 1 };
typedef int hk_file_writer(int fd, const char *path);
/* Writes NAME.PID.tmp, and then renames it to NAME, so that a reader of NAME always sees a complete file. Writes a pipe or a device in place. "-"
 * means HK_STDERR, or HK_STDERR_ASKED_FOR if `ending` is NULL. Returns 0, or a negative error number. */
int hk_named_file_write(const char *name, const char *ending, hk_file_writer *write);
/* Writes the file that an option names. If this fails, prints a message, unless the last attempt failed too. */
void hk_option_file_write(const char *option, const char *name, const char *ending, hk_file_writer *write,
                          bool *refused);
/* Appends the text to the log that an option names. If the file cannot be opened, prints a message, unless the last attempt failed too. */
void hk_option_file_append(const char *option, const char *name, struct hk_text *text, bool *refused);
