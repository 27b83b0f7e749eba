/* Objects' values in a line each, fetched together. */
#ifndef SF_CLI_OBJECT_LINE_H
#define SF_CLI_OBJECT_LINE_H

#include <stdio.h>
#include "base/buf.h"
#include "lib/session.h"

struct sf_object_lines {
	struct sf_buf text; /* the values, a NUL behind each */
	size_t *at;         /* by position in the list; SIZE_MAX: no object */
	size_t cap;
	const struct sf_ckpt *ckpt;
	uint32_t *turn; /* by loaded object: its position */
	uint32_t next;
};
/*
 * sf_object_lines_load - the values of those of @n catalog entries that are objects, as JSON cut to
 * a few hundred bytes; "…" stands where it was cut.
 *
 * One that is large (1 MiB) or cannot be read is said so in its place, in parentheses. What may be
 * better next time (-EIO …) is the result, and the values are not there. Reads these objects' items
 * alone, together, 32 MiB at a time.
 */
int sf_object_lines_load(struct sf_object_lines *l, struct sf_session *s, const uint32_t *entry,
                         uint32_t n, struct sf_error *err);
/* That of position @i of the list, NULL: it is a tensor, or the values are not there. */
const char *sf_object_line(const struct sf_object_lines *l, uint32_t i);
void sf_object_lines_release(struct sf_object_lines *l);

/* Columns that sf_put_name() takes for it. */
size_t sf_columns_shown(FILE *f, const char *s, size_t len);
/* A text in one line of at most @columns, "…" at its end when it was longer; control characters
 * are blanks. */
void sf_put_line(FILE *f, const char *s, size_t columns);

#endif
