/* Small pieces of text the verbs share. */
#ifndef SF_CLI_TEXT_H
#define SF_CLI_TEXT_H

#include <stdio.h>
#include "base/buf.h"
#include "lib/session.h"

/* To a terminal control characters are escaped; into a pipe names go as they are. */
void sf_put_name(FILE *f, const char *s, size_t len);
void sf_put_json(FILE *f, const char *s, size_t len); /* with quotes */
/* "1.4 GB" */
const char *sf_human_size(uint64_t bytes, char buf[32]);
/* "120.3 M": thousands, millions, billions (B), trillions */
const char *sf_human_count(uint64_t n, char buf[32]);
/* "[16, 37]" */
void sf_shape_text(struct sf_buf *out, const uint64_t *shape, unsigned ndim);
/* "1 tensor", "2 tensors": printf("%u tensor%s", n, sf_plural(n)). */
const char *sf_plural(uint64_t n);
/* Nanoseconds since 1970 as "2026-11-22 01:11:53 +0100", the machine's zone; "" when that is no
 * time. */
const char *sf_time_text(int64_t ns, char buf[40]);
/* A formatted string, malloc'ed; NULL: no memory. */
char *sf_cli_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
