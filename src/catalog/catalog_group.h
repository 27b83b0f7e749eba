/* Groups of a catalog: which entries, and which files at the root. */
#ifndef SF_CATALOG_CATALOG_GROUP_H
#define SF_CATALOG_CATALOG_GROUP_H

#include "catalog/catalog.h"

#define SF_ROOT_GROUPS 64 /* groups that get files at the root */

/*
 * Fills group, ngroups, by_group, model_group, optim_group and each entry's group (ckpt's numbers
 * become the catalog's). Stems are distinct and none is "checkpoint". The first group of a role has
 * the role's name. -ENOMEM.
 */
int sf_catalog_groups(struct sf_catalog *c, struct sf_entry *entry);

#endif
