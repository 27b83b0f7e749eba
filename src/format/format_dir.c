#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "ckpt/ckpt_builder.h"
#include "format/format_dir.h"
#include "format/run_dir.h"

const struct sf_objinfo *sf_format_listed(const struct sf_objinfo *files, size_t n,
                                          const char *name)
{
	const struct sf_objinfo key = { .name = name };

	return n ? bsearch(&key, files, n, sizeof(*files), sf_objinfo_compare) : NULL;
}

struct parts {
	const char *dir, *name;
	size_t dir_len, len;
};

static int by_parts(const void *key, const void *elem)
{
	const struct parts *p = key;
	const char *name = ((const struct sf_objinfo *)elem)->name;
	int c = strncmp(p->dir, name, p->dir_len);

	if (c)
		return c;
	c = strncmp(p->name, name + p->dir_len, p->len);
	return c ? c : -(name[p->dir_len + p->len] != '\0');
}

const struct sf_objinfo *sf_format_file(const struct sf_format_dir *dir, const char *name,
                                        size_t len)
{
	struct parts p = { dir->dir, name, strlen(dir->dir), len };

	if (!dir->nfiles || memchr(name, '\0', len))
		return NULL;
	return bsearch(&p, dir->files, dir->nfiles, sizeof(*dir->files), by_parts);
}

void sf_format_found_release(struct sf_format_found *f)
{
	sf_objinfos_release(&f->files);
	sf_arena_release(&f->arena);
}

static int add_found(void *arg, const struct sf_objinfo *info)
{
	struct sf_format_found *f = arg;

	return sf_objinfos_keep(&f->files, &f->arena, info);
}

int sf_format_find(struct sf_format_dir *dir, const char *const *names, size_t n,
                   struct sf_ckpt_builder *b, struct sf_format_found *found, struct sf_error *err)
{
	SF_FREE const char **ask = sf_alloc_array(n, sizeof(*ask));
	struct sf_buf name = { .limit = 8192 };
	size_t k = 0;
	int r = 0;

	if (!dir->store->ops->look)
		return 0;
	for (size_t i = 0; ask && i < n && r >= 0; i++) {
		sf_buf_reset(&name);
		sf_buf_str(&name, dir->dir);
		sf_buf_str(&name, names[i]);
		sf_buf_cstr(&name);
		if (sf_buf_check(&name) == -ENOMEM) {
			r = -ENOMEM;
			break;
		}
		if (sf_buf_check(&name) < 0 ||
		    sf_path_check((const char *)name.at, name.len, NULL) < 0 ||
		    sf_format_listed(dir->files, dir->nfiles, (const char *)name.at))
			continue;
		ask[k] = sf_arena_strdup(&found->arena, (const char *)name.at, name.len);
		r = ask[k++] ? 0 : -ENOMEM;
	}
	sf_buf_release(&name);
	for (size_t i = found->files.n; i < dir->nfiles && r >= 0; i++) /* not at a second call */
		r = sf_objinfos_push(&found->files, dir->files[i]);
	if (!ask || r < 0)
		return sf_fail(err, -ENOMEM, "no memory for the names of %zu files", n);
	r = dir->store->ops->look(dir->store, ask, k, add_found, found, err);
	if (r < 0)
		return r == -ENOMEM ? sf_fail(err, r, "no memory for %zu files", n) : r;
	r = sf_ckpt_builder_listing(b, found->files.at + dir->nfiles, found->files.n - dir->nfiles,
	                            err);
	if (found->files.n)
		qsort(found->files.at, found->files.n, sizeof(*found->files.at),
		      sf_objinfo_compare);
	dir->files = found->files.at;
	dir->nfiles = found->files.n;
	return r;
}

int64_t sf_format_step(const char *source)
{
	const char *end = source + strlen(source);

	for (int k = 0; k < 2 && end > source; k++) {
		const char *at;
		int64_t step;
		while (end > source && end[-1] == '/')
			end--;
		for (at = end; at > source && at[-1] != '/';)
			at--;
		step = sf_run_dir_step(at, (size_t)(end - at));
		if (step >= 0)
			return step;
		end = at;
	}
	return -1;
}
