/* Term: writes the report and the heap profile of a program that SIGTERM ends.
 *
 *   SIGTERM -> handler: the profile; the report, unless the signal came in the middle of a slow call -> the default action: same status
 *
 * Owns     the handler, installed only if an option asks for a report or a profile, and the program has none when HAKMEM is loaded. A
 *          handler that the program installs later replaces it; programs that exec begins have the default action.
 *          It stands for the default action: sigaction() and signal(), interposed, report SIG_DFL for it, and SIG_DFL installs it again.
 * Threads  hk_term_begin(): the first. The handler: any. */
#ifndef HK_TERM_H
#define HK_TERM_H

void hk_term_begin(void);

#endif
