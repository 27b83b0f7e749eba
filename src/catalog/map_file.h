/* --map's argument: OLD=NEW, or @FILE with lines "OLD<tab>NEW" or a JSON object; @NAME: one that comes
 * with the program (map_shipped.h; a file of that name is @./NAME). */
#ifndef SF_CATALOG_MAP_FILE_H
#define SF_CATALOG_MAP_FILE_H

#include "base/error.h"
#include "catalog/view_options.h"

/* Appends; rules and their names are malloc'ed. -EINVAL with the file and the line; also a name
 * with a NUL: '*' matches a component that has one. */
int sf_map_rules_add(const char *value, struct sf_map_rule **rules, size_t *n,
                     struct sf_error *err);
void sf_map_rules_free(struct sf_map_rule *rules, size_t n);

#endif
