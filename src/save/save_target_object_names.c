/* What an object is, by its name alone. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "save/save_target_object_priv.h"

#define NAME_MAX_BYTES 4200
#define PART_TOKEN 16 /* hex digits */

static int by_text(const void *key, const void *at)
{
	return strcmp(key, *(const char *const *)at);
}

static bool is_named(const struct sf_object_marker *m, const char *name)
{
	return m->nnames && bsearch(name, m->name, m->nnames, sizeof(*m->name), by_text) != NULL;
}

static bool is_meta(const struct sf_object_marker *m, const char *name)
{
	size_t n = strlen(m->dir);

	return strncmp(name, m->dir, n) == 0 && strcmp(name + n, ".metadata") == 0;
}

bool sf_object_is_formats(const char *name)
{
	static const char *const names[] = { ".metadata", "model_and_optim/.metadata",
		                             ".metadata.json", "metadata.json", "common.pt" };
	bool is = false;

	for (size_t i = 0; i < SF_ARRAY_LEN(names) && !is; i++)
		is = strcmp(name, names[i]) == 0;
	return is;
}

bool sf_object_is_alone(const struct sf_object_marker *m)
{
	return is_meta(m, m->last);
}

/* Google's parts are objects, NAME.part-TOKEN-N (store/gs_put_parts.c), until they are composed. */
static const char *whole_name(const char *name, char room[NAME_MAX_BYTES])
{
	static const char mark[] = ".part-";
	const char *part = NULL, *token, *number;

	for (const char *p = name; (p = strstr(p, mark)) != NULL; p++)
		part = p; /* a name may have one of its own */
	token = part ? part + strlen(mark) : name;
	number = token + strspn(token, "0123456789abcdef");
	if (!part || number - token != PART_TOKEN || *number != '-' || !number[1] ||
	    number[1 + strspn(number + 1, "0123456789")] || part - name >= NAME_MAX_BYTES)
		return name;
	memcpy(room, name, (size_t)(part - name));
	room[part - name] = 0;
	return room;
}

enum sf_object_kind sf_object_kind(const struct sf_object_marker *m, const char *name,
                                   char ret_tag[SF_SHARD_TAG_MAX])
{
	char room[NAME_MAX_BYTES];
	const char *whole = whole_name(name, room), *slash = strrchr(whole, '/');

	ret_tag[0] = 0;
	if (strcmp(name, SF_OBJECT_MARKER) == 0)
		return SF_OBJECT_MARK;
	/* where the formats have them */
	if ((!slash || strncmp(whole, "model_and_optim/", (size_t)(slash + 1 - whole)) == 0) &&
	    sf_shard_is_tagged(slash ? slash + 1 : whole, ret_tag))
		return SF_OBJECT_SHARD;
	if (!m->ours)
		return SF_OBJECT_OTHER;
	if (strcmp(name, m->last) == 0)
		return SF_OBJECT_LAST;
	if (is_meta(m, name))
		return SF_OBJECT_META;
	return strcmp(whole, m->last) == 0 || is_meta(m, whole) || is_named(m, whole) ||
	                       is_named(m, name) ||
	                       (strcmp(whole, "common.pt") == 0 &&
	                        strcmp(m->last, "metadata.json") == 0)
	               ? SF_OBJECT_LEFT
	               : SF_OBJECT_OTHER;
}
