/* Rows of text whose columns stand under each other. */
#ifndef SF_CLI_TABLE_H
#define SF_CLI_TABLE_H

#include "base/buf.h"

/* { .align = "lrl" }: a column each, to the left or the right; cells come row by row. */
struct sf_table {
	const char *align;
	struct sf_buf text; /* the cells, a NUL behind each */
	size_t *at;         /* where each begins in text */
	size_t n, cap;
	int failed; /* -ENOMEM; further cells do nothing then */
};
/* The next cell: a name from outside, escaped for a terminal; what is escaped already; or words of
 * our own. */
void sf_table_name(struct sf_table *t, const char *s, size_t len);
void sf_table_escaped(struct sf_table *t, const char *s, size_t len);
void sf_table_cell(struct sf_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Two blanks between columns, none behind the last. A failure of @t becomes one of @out. */
void sf_table_put(struct sf_buf *out, const struct sf_table *t, const char *indent);
void sf_table_release(struct sf_table *t);

#endif
