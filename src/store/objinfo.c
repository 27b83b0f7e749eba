#include "config.h"

#include <errno.h>
#include <string.h>

#include "store/objinfo.h"

int sf_objinfos_keep(struct sf_objinfos *v, struct sf_arena *arena, const struct sf_objinfo *info)
{
	const char *etag = info->version.etag;
	struct sf_objinfo copy = *info;

	copy.name = sf_arena_strdup(arena, info->name, strlen(info->name));
	if (copy.name && etag)
		copy.version.etag = sf_arena_strdup(arena, etag, strlen(etag));
	if (!copy.name || (etag && !copy.version.etag))
		return -ENOMEM;
	return sf_objinfos_push(v, copy);
}

int sf_objinfo_compare(const void *a, const void *b)
{
	return strcmp(((const struct sf_objinfo *)a)->name, ((const struct sf_objinfo *)b)->name);
}
