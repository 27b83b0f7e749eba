/* A TARGET of export that is a URL, of plain files. */
#ifndef SF_CLI_TARGET_URL_H
#define SF_CLI_TARGET_URL_H

/* Says that it cannot be, without what must not be shown of it. @target has "://". Returns the exit code. */
int sf_refuse_url(const char *target);

#endif
