/* How wide a text stands on a terminal. */
#ifndef SF_BASE_COLUMNS_H
#define SF_BASE_COLUMNS_H

#include <stddef.h>

/* Columns of @len bytes: two for East Asian wide characters, none for combining ones; a byte that
 * is not UTF-8 is one. No locale is asked. */
size_t sf_columns(const char *s, size_t len);

#endif
