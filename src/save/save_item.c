#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "save/save_item_priv.h"

int sf_save_items_init(struct sf_save_items *s, struct sf_error *err)
{
	(void)err;
	*s = (struct sf_save_items){ .item = { 0 } };
	return 0;
}

void sf_save_items_release(struct sf_save_items *s)
{
	sf_arena_release(&s->arena);
	sf_save_item_vec_release(&s->item);
	sf_save_file_vec_release(&s->file);
	sf_map_release(&s->boxes);
	sf_map_release(&s->names);
	sf_buf_release(&s->probe);
}

static int no_memory(struct sf_error *err)
{
	return sf_fail(err, -ENOMEM, "no memory for another item to save");
}

/* ---- names ---- */

static int check_path(const struct sf_item_name *name, struct sf_error *err)
{
	if (name->npath > SF_SAVE_PATH_MAX)
		return sf_fail(err, -EINVAL, "a path of %zu steps, the limit is %d", name->npath,
		               SF_SAVE_PATH_MAX);
	if (name->npath && !name->path)
		return sf_fail(err, -EINVAL, "a path of %zu steps that is NULL", name->npath);
	for (size_t i = 0; i < name->npath; i++)
		if (name->path[i].name && strlen(name->path[i].name) > SF_SAVE_KEY_MAX)
			return sf_fail(err, -EINVAL,
			               "step %zu of a path has %zu bytes, the limit is %d", i,
			               strlen(name->path[i].name), SF_SAVE_KEY_MAX);
	return 0;
}

/* A key that was not given is its path's steps. */
static void join_path(const struct sf_item_name *name, struct sf_buf *out)
{
	for (size_t i = 0; i < name->npath; i++) {
		if (i)
			sf_buf_byte(out, '.');
		if (name->path[i].name)
			sf_buf_str(out, name->path[i].name);
		else
			sf_buf_printf(out, "%llu", (unsigned long long)name->path[i].index);
	}
}

static int set_key(struct sf_save_items *s, const struct sf_item_name *name,
                   struct sf_save_item *item, struct sf_error *err)
{
	const char *key = name->key;
	size_t len = key && !name->key_len ? strlen(key) : name->key_len;

	if (!key) {
		if (!name->npath)
			return sf_fail(err, -EINVAL, "neither a key nor a path");
		sf_buf_reset(&s->probe);
		join_path(name, &s->probe);
		if (sf_buf_check(&s->probe) < 0)
			return no_memory(err);
		key = s->probe.at ? (const char *)s->probe.at : "";
		len = s->probe.len;
	}
	if (len > SF_SAVE_KEY_MAX)
		return sf_fail(err, -EINVAL, "key '%s' has %zu bytes, the limit is %d",
		               sf_save_shown(key, len).at, len, SF_SAVE_KEY_MAX);
	if (len && memchr(key, 0, len))
		return sf_fail(err, -EINVAL, "key '%s' goes on behind a NUL",
		               sf_save_shown(key, strlen(key)).at);
	item->key = sf_arena_strdup(&s->arena, key, len);
	item->key_len = (uint32_t)len;
	return item->key ? 0 : no_memory(err);
}

int sf_item_set_name(struct sf_save_items *s, const struct sf_item_name *name,
                     struct sf_save_item *item, struct sf_error *err)
{
	struct shardfuse_save_step *path;
	int r = check_path(name, err);

	if (r >= 0)
		r = set_key(s, name, item, err);
	if (r < 0 || !name->npath)
		return r;
	if (name->npath == 1 && name->path[0].name && strcmp(name->path[0].name, item->key) == 0)
		return 0; /* as if there were none */
	path = sf_arena_calloc(&s->arena, name->npath, sizeof(*path));
	if (!path)
		return no_memory(err);
	for (size_t i = 0; i < name->npath; i++) {
		const char *step = name->path[i].name;
		path[i].index = step ? 0 : name->path[i].index;
		if (step && !(path[i].name = sf_arena_strdup(&s->arena, step, strlen(step))))
			return no_memory(err);
	}
	item->path = path;
	item->npath = (uint32_t)name->npath;
	return 0;
}

/* ---- once each ---- */

/* The bytes that tell an item: key, NUL, origin. */
static int same_item(void *arg, uint32_t value, const char *at, size_t len)
{
	const struct sf_save_item *item = &((const struct sf_save_items *)arg)->item.at[value];
	size_t coords = item->ndim * sizeof(*item->origin);

	return item->key_len + 1 + coords == len && memcmp(at, item->key, item->key_len) == 0 &&
	       at[item->key_len] == 0 &&
	       (!coords || memcmp(at + item->key_len + 1, item->origin, coords) == 0);
}

int sf_item_push(struct sf_save_items *s, const struct sf_save_item *item, bool once,
                 struct sf_error *err)
{
	uint32_t next = (uint32_t)s->item.n, found;
	int failed = 0;

	if (s->item.n >= SF_MAP_NONE - 1)
		return sf_fail(err, -E2BIG, "more than %u items on one rank", SF_MAP_NONE - 1);
	if (sf_save_item_vec_reserve(&s->item, s->item.n + 1) < 0)
		return no_memory(err);
	s->item.at[next] = *item; /* where the map looks; counted below */
	if (once) {
		sf_buf_reset(&s->probe);
		sf_buf_add(&s->probe, item->key, item->key_len);
		sf_buf_byte(&s->probe, 0);
		sf_buf_add(&s->probe, item->origin, item->ndim * sizeof(*item->origin));
		if (sf_buf_check(&s->probe) < 0)
			return no_memory(err);
		found = sf_map_add(&s->boxes, (const char *)s->probe.at, s->probe.len, next,
		                   same_item, s, &failed);
		if (failed < 0)
			return no_memory(err);
		/* the map may still have an item that was taken back: then it is this one's place */
		if (found != SF_MAP_NONE && found != next)
			return sf_fail(err, -EINVAL, "%s '%s' is added twice%s",
			               item->kind == SF_SAVE_OBJECT ? "object" : "tensor",
			               sf_save_shown(item->key, item->key_len).at,
			               item->ndim ? " with boxes of one origin" : "");
	}
	s->item.n++;
	return 0;
}

/* ---- files ---- */

/* What formats write themselves, or tell themselves by, wherever it lies. */
static bool is_formats_own(const char *name)
{
	static const char *const own[] = { ".metadata", ".metadata.json", "metadata.json",
		                           ".shardfuse-manifest.json", ".shardfuse-save" };
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	bool is = sf_has_suffix(last, ".distcp") || strcmp(last, ".metadata.tmp") == 0;

	for (size_t i = 0; i < SF_ARRAY_LEN(own) && !is; i++)
		is = strcmp(last, own[i]) == 0;
	return is;
}

/* Below the target: no way out of it. */
static bool is_file_name(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > 4000 || name[0] == '/' || name[len - 1] == '/')
		return false;
	for (const char *at = name; *at;) {
		size_t n = strcspn(at, "/");
		if (!n || n > 255 || (n == 1 && at[0] == '.') ||
		    (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		at += n + (at[n] == '/');
	}
	return true;
}

static int same_name(void *arg, uint32_t value, const char *at, size_t len)
{
	const char *name = ((const struct sf_save_items *)arg)->file.at[value].name;

	return strlen(name) == len && memcmp(name, at, len) == 0;
}

int sf_save_items_file(struct sf_save_items *s, const char *name, const void *at, size_t len,
                       struct sf_error *err)
{
	struct sf_save_file f = { .len = len };
	int failed; /* it does not: there is room */
	void *copy;

	if (!name || !is_file_name(name))
		return sf_fail(err, -EINVAL, "'%s' is no name of a file in a checkpoint",
		               name ? sf_save_shown(name, strlen(name)).at : "");
	if (is_formats_own(name))
		return sf_fail(err, -EINVAL, "file '%s': the save writes files of that name itself",
		               sf_save_shown(name, strlen(name)).at);
	if (!at && len)
		return sf_fail(err, -EINVAL, "file '%s': %zu bytes at NULL",
		               sf_save_shown(name, strlen(name)).at, len);
	if (sf_save_file_vec_reserve(&s->file, s->file.n + 1) < 0 ||
	    sf_map_reserve(&s->names, s->file.n + 1) < 0)
		return no_memory(err);
	if (sf_map_get(&s->names, name, strlen(name), same_name, s) != SF_MAP_NONE)
		return sf_fail(err, -EINVAL, "file '%s' is added twice",
		               sf_save_shown(name, strlen(name)).at);
	f.name = sf_arena_strdup(&s->arena, name, strlen(name));
	f.at = copy = sf_arena_alloc(&s->arena, len);
	if (!f.name || !copy)
		return sf_fail(err, -ENOMEM, "no memory for file '%s' of %zu bytes",
		               sf_save_shown(name, strlen(name)).at, len);
	if (len)
		memcpy(copy, at, len);
	s->file.at[s->file.n] = f;
	sf_map_add(&s->names, name, strlen(name), (uint32_t)s->file.n++, same_name, s, &failed);
	return 0;
}
