/* NamedFile: opens files that options name.
 *
 *   %p in a name becomes the process id. DIR/ becomes DIR/PID.json, or DIR/PID with another ending. In a child process, a name without %p and without
 *   a final slash becomes NAME.PID.ENDING, because a child must not overwrite its parent's file.
 *
 * A child process is one that was forked, or a program that was started by a process with the same preload and the same option.
 * Owns     This file owns the flag that says whether this process is a child.
 * Threads  hk_named_files_begin is called before a second thread exists. Any thread may call the other functions. */
#ifndef HK_NAMED_FILE_H
#define HK_NAMED_FILE_H

#include "base/message.h"

/* Finds out if this process is a child. Called once, after the options have been read. Makes system calls only if an option names a file. */
void hk_named_files_begin(void);
void hk_named_files_fork_child(void);
/* Returns true if an option names a file. */
bool hk_named_files_wanted(void);

/* Expands the name into path->bytes, with a terminating NUL. `ending` is the ending of the file in the folder if the name is a folder, and NULL if
 * the name does not come from an option. Returns false if the path is too long. */
bool hk_named_path(struct hk_text *path, const char *name, const char *ending);
/* Terminates the text with NUL. Returns false if the text is too long. */
bool hk_path_end(struct hk_text *path);

/* The type of a function that writes a file. It returns 0, or a negative error number. */
typedef int hk_file_writer(int fd, const char *path);
/* Writes NAME.PID.tmp and renames it to NAME, so that a reader of NAME sees a complete file. A pipe or a device is written in place. "-" stands
 * for HK_STDERR, or for HK_STDERR_ASKED_FOR if `ending` is NULL. Returns 0, or a negative error number. */
int hk_named_file_write(const char *name, const char *ending, hk_file_writer *write);
/* Writes the file that an option names. Prints a message if this fails, but none if the last attempt failed too. */
void hk_option_file_write(const char *option, const char *name, const char *ending, hk_file_writer *write,
                          bool *refused);
/* Appends the text to the log that an option names. Prints a message if opening the file fails, but none if the last attempt failed too. */
void hk_option_file_append(const char *option, const char *name, struct hk_text *text, bool *refused);

#endif
