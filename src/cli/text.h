/* Small pieces of text the verbs share. */
#ifndef SF_CLI_TEXT_H
#define SF_CLI_TEXT_H

#include <stdio.h>
#include "tool/session.h"

/* To a terminal control characters are escaped; into a pipe names go as they are. */
void sf_put_name(FILE *f, const char *s, size_t len);
void sf_put_json(FILE *f, const char *s, size_t len); /* with quotes */
/* "1.4 GB" */
const char *sf_human_size(uint64_t bytes, char buf[32]);
/* "[16, 37]" into @buf */
void sf_put_shape(FILE *f, const uint64_t *shape, unsigned ndim);
/* A formatted string, malloc'ed; NULL: no memory. */
char *sf_cli_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
