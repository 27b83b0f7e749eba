/* What only matters when a person looks at a terminal. */
#ifndef SF_CLI_TERMINAL_H
#define SF_CLI_TERMINAL_H

#include <stdio.h>
#include "view/vfile.h"

/*
 * sf_terminal_check - may this file go to stdout?
 *
 * -EPERM when stdout is a terminal and the file begins with what a terminal would obey or cannot
 * show: control characters, bytes that are not UTF-8. A pipe takes anything ("| cat"). Waits; @f is
 * prepared.
 */
int sf_terminal_check(struct sf_vfile *f, const char *name, struct sf_error *err);
bool sf_terminal_binary(const char *s, size_t len); /* of a file's first bytes */

/* Columns of the terminal behind @f, or of $COLUMNS; 80 when nobody knows. */
size_t sf_terminal_width(FILE *f);
/* Names below each other in as many columns as fit into @width, as ls has them. */
void sf_put_columns(FILE *f, char *const *name, size_t n, size_t width);

#endif
