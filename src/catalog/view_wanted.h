/* views=, role=: which parts of the tree, and the keys of which groups, are shown. */
#ifndef SF_CATALOG_VIEW_WANTED_H
#define SF_CATALOG_VIEW_WANTED_H

#include <string.h>
#include "base/error.h"
#include "catalog/view_options.h"
#include "ckpt/ckpt.h"

static inline bool sf_view_wanted(const struct sf_view_options *o, const char *name)
{
	for (size_t i = 0; i < o->views.n; i++)
		if (strcmp(o->views.at[i], name) == 0)
			return true;
	return o->views.n == 0;
}
/* Keys of groups of this role? */
static inline bool sf_role_wanted(const struct sf_view_options *o, enum sf_role role)
{
	return (o->role == SF_ROLE_ANY || o->role == (int)role) &&
	       (!o->model_only || role == SF_ROLE_MODEL);
}
/* -EINVAL: two options that leave none. */
int sf_roles_check(const struct sf_view_options *o, struct sf_error *err);
/* -EINVAL: a name that is no view, in the message with those there are. */
int sf_views_check(const struct sf_view_options *o, struct sf_error *err);

#endif
