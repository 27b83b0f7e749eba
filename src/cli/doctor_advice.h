/* What helps where a SOURCE cannot be opened, or what lies there is not read. */
#ifndef SF_CLI_DOCTOR_ADVICE_H
#define SF_CLI_DOCTOR_ADVICE_H

#include <stdbool.h>

/*
 * sf_doctor_advice - one remedy. @opened: its directory was, what lies there is what is wrong. @r, @msg:
 * how it failed. Looks at the directories above a path that is not there, for what is there instead.
 *
 * malloc'ed; NULL: no memory.
 */
char *sf_doctor_advice(const char *source, bool opened, int r, const char *msg);

#endif
