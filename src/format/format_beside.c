#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/format_beside.h"
#include "store/source.h"

static bool has_weights(const struct sf_objinfo *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(files[i].name, "weights/", 8) == 0)
			return true;
	return false;
}

int sf_format_beside(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                     struct sf_error *err)
{
	const char *slash = strrchr(store->source, '/');
	struct sf_source *src = NULL;
	SF_FREE char *dir = NULL, *name = NULL;
	struct sf_store *above = NULL;
	int r = -ENOENT;

	if (!has_weights(files, n) || !slash || !slash[1])
		return 0;
	if (asprintf(&dir, "%.*s", (int)(slash - store->source) + 1, store->source) < 0)
		dir = NULL;
	if (asprintf(&name, "%s-unfinished", slash + 1) < 0)
		name = NULL;
	if (dir && name && sf_store_open(store->io, dir, store->opt, &above, NULL) >= 0)
		r = above->ops->open(above, name, NULL, &src, NULL);
	if (r >= 0)
		sf_source_unref(src);
	sf_store_free(above);
	return r < 0 ? 0
	             : sf_fail(err, -ENOENT,
	                       "'%s': not committed: '%s' beside it says that its save did not end",
	                       store->source, name);
}
