/* Profile: a set of options: a named row of profiles.def, or a file of `name = value` lines, where # begins a comment.
 * Owns     the reading and writing of such lines.
 * Threads  apply: before a second thread exists. write: one at a time. */
#ifndef HK_PROFILE_H
#define HK_PROFILE_H

#include "policy/policy.h"

/* A name, or else the path of a file. What is wrong with it is a warning line, and nothing more. */
hk_profile_taker hk_profile_apply;

/* Writes the knobs as a profile. */
void hk_profile_write(int fd, const struct hk_knobs *knobs);

#endif
