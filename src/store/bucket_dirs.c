#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "store/bucket_dirs.h"

#define FLAT_FROM 8      /* directories to look into: all keys in one listing from then on */
#define DIRS_MAX 1000000 /* of one listing */

/* A directory that was told of; its name is relative to the store, without '/' at its end. */
struct dir {
	char *name;
	unsigned level; /* of what is in it */
	bool skip;      /* it is not looked into */
};
SF_VEC(dirs, struct dir);

struct listing {
	struct sf_store *s;
	const struct sf_bucket_ops *ops;
	const char *prefix;
	int (*each)(void *arg, const struct sf_objinfo *info);
	void *arg;
	struct sf_error *err;
	unsigned depth;
	struct dirs dirs;
	/* of dirs: some servers tell a prefix on each page that has a key below it */
	struct sf_map names;
	size_t wanted;   /* dirs that are not skipped */
	size_t base_len; /* of the store's prefix, in front of every key */
	/* of the listing under way */
	unsigned level;
	bool flat;
	size_t root_len; /* flat: of the prefix of all, behind base_len */
	uint64_t seen;
};

static int tell(struct listing *l, const char *name, const struct sf_bucket_entry *e)
{
	const struct sf_objinfo info = {
		.name = name,
		.size = e ? e->size : UINT64_MAX,
		.version = { .mtime_ns = e ? e->mtime_ns : 0, .etag = e ? e->etag : NULL },
	};

	return l->each(l->arg, &info);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dir *)a)->name, ((const struct dir *)b)->name);
}

/* Of a listing of everything: what is no deeper than was asked for, in directories to look into. */
static int take_flat(struct listing *l, const char *name, const struct sf_bucket_entry *e)
{
	const char *below = name + l->root_len, *slash = strchr(below, '/');
	unsigned level = 0;

	for (const char *c = slash; c; c = strchr(c + 1, '/'))
		level++;
	if (!level || level > l->depth)
		return 0;
	char first[SF_BUCKET_KEY_MAX + 1];
	snprintf(first, sizeof(first), "%.*s", (int)(slash - name), name);
	const struct dir key = { .name = first };
	const struct dir *dir = bsearch(&key, l->dirs.at, l->dirs.n, sizeof(key), by_name);
	if (!dir || dir->skip)
		return 0;
	return tell(l, name, e);
}

static int same_dir(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct listing *l = arg;

	return strncmp(l->dirs.at[value].name, name, len) == 0 && !l->dirs.at[value].name[len];
}

static int take_dir(struct listing *l, const char *name, size_t len)
{
	struct dir d = { .level = l->level + 1 };
	int failed = 0, r;

	if (l->dirs.n == DIRS_MAX)
		return sf_fail(l->err, -E2BIG, "listing: more than %d directories", DIRS_MAX);
	if (sf_map_add(&l->names, name, len, (uint32_t)l->dirs.n, same_dir, l, &failed) !=
	    SF_MAP_NONE)
		return 0;
	d.name = failed ? NULL : strndup(name, len);
	if (!d.name || dirs_push(&l->dirs, d) < 0) {
		free(d.name);
		return sf_fail(l->err, -ENOMEM, "listing: no memory");
	}
	r = l->level == 0 ? tell(l, d.name, NULL) : 0;
	if (r == 0 && d.level <= l->depth)
		l->wanted++;
	else
		l->dirs.at[l->dirs.n - 1].skip = true;
	return SF_MIN(r, 0);
}

static int take(void *arg, const struct sf_bucket_entry *e)
{
	struct listing *l = arg;
	const char *name = e->key + l->base_len;
	size_t len = e->key_len - l->base_len;
	int r;

	l->seen++;
	if (!e->is_prefix) {
		/* folder marks that consoles leave, and keys that are no path: nothing can name them */
		if (!len || name[len - 1] == '/' || sf_path_check(name, len, NULL) < 0)
			return 0;
		r = l->flat ? take_flat(l, name, e) : tell(l, name, e);
		return r == SF_LIST_SKIP ? 0 : r;
	}
	/* a listing of everything has no prefixes, whatever the server says */
	if (!len || l->flat || sf_path_check(name, len - 1, NULL) < 0)
		return 0;
	return take_dir(l, name, len - 1);
}

/* Everything that begins with @prefix, page by page. */
static int pages(struct listing *l, const char *prefix, const char *delimiter)
{
	struct sf_bucket_pager pager = { .prefix = prefix, .delimiter = delimiter };
	int r = 1;

	while (r == 1)
		r = l->ops->page(l->s, &pager, take, l, l->err);
	sf_bucket_pager_release(&pager);
	return r;
}

static int list_all(struct listing *l, const char *root)
{
	int r = pages(l, root, "/");

	if (r < 0 || !l->wanted)
		return r;
	if (l->wanted >= FLAT_FROM) {
		qsort(l->dirs.at, l->dirs.n, sizeof(*l->dirs.at), by_name);
		l->flat = true;
		return pages(l, root, NULL);
	}
	for (size_t i = 0; i < l->dirs.n && r >= 0; i++) { /* more come while it runs */
		char *prefix;

		if (l->dirs.at[i].skip)
			continue;
		if (asprintf(&prefix, "%s%s/", l->prefix, l->dirs.at[i].name) < 0)
			return sf_fail(l->err, -ENOMEM, "listing: no memory");
		l->level = l->dirs.at[i].level;
		r = pages(l, prefix, "/");
		free(prefix);
	}
	return r;
}

/* Nothing begins with @root: is it the name of an object? */
static int nothing(const struct listing *l, const char *dir, const char *root)
{
	SF_FREE char *key = strndup(root, strlen(root) - 1);
	const char *slash = *dir ? "/" : "";

	if (key && l->ops->has(l->s, key))
		return sf_fail(l->err, -ENOTDIR,
		               "'%s%s%s' is an object, not a prefix with objects below it",
		               l->s->source, slash, dir);
	return sf_fail(l->err, -ENOENT, "'%s%s%s': the bucket has no objects below it",
	               l->s->source, slash, dir);
}

int sf_bucket_list(struct sf_store *s, const struct sf_bucket_ops *ops, const char *prefix,
                   const char *dir, unsigned depth,
                   int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                   struct sf_error *err)
{
	struct listing l = { .s = s,
		             .ops = ops,
		             .prefix = prefix,
		             .each = each,
		             .arg = arg,
		             .err = err,
		             .depth = depth,
		             .base_len = strlen(prefix),
		             .root_len = *dir ? strlen(dir) + 1 : 0 };
	SF_FREE char *root = NULL;
	int r = *dir ? sf_path_check(dir, strlen(dir), err) : 0;

	if (r < 0)
		return r;
	if (asprintf(&root, "%s%s%s", prefix, dir, *dir ? "/" : "") < 0)
		root = NULL;
	if (!root)
		return sf_fail(err, -ENOMEM, "listing: no memory");
	r = list_all(&l, root);
	if (r >= 0 && !l.seen && *root)
		r = nothing(&l, dir, root);
	for (size_t i = 0; i < l.dirs.n; i++)
		free(l.dirs.at[i].name);
	dirs_release(&l.dirs);
	sf_map_release(&l.names);
	return SF_MIN(r, 0);
}
