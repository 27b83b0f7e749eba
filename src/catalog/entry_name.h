/* Names of entries: components, order, and the name inside a group's file. */
#ifndef SF_CATALOG_ENTRY_NAME_H
#define SF_CATALOG_ENTRY_NAME_H

#include "catalog/catalog.h"

/* the longest of the flat directories' suffixes: room for it in all of them */
#define SF_FLAT_SUFFIX ".safetensors"

/* The entry's name without the text of its first @strip path elements, where it begins with them.
 * Borrows from the catalog. */
const char *sf_entry_stripped(const struct sf_entry *e, unsigned strip, size_t *ret_len);

/* Order of names component by component: '.' before every other byte, a name before those below
 * it. */
int sf_name_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* Bytes of the name's first @depth components with a dot behind each (the whole name and one more
 * when it has no others). */
size_t sf_name_prefix(const char *name, size_t len, unsigned depth);
/* Does @name have the first @prefix bytes (as sf_name_prefix says) of @of, or is it just them
 * without the last dot? */
bool sf_name_below(const char *name, size_t len, const char *of, size_t prefix);
/* Would a component of this length and content be cut as a file name with @room for its suffix? */
bool sf_name_is_long(const char *part, size_t len, size_t room);

#endif
