/* Virtual files and values that are not tensors. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "lib/lib_priv.h"
#include "value/object.h"
#include "value/value_json.h"

struct shardfuse_file {
	struct sf_vfile *file;
	uint64_t size;
	bool ahead; /* joined */
};

struct listing {
	int (*each)(void *arg, const char *name, int type);
	void *arg;
	int ended;
};

static int list_entry(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                      uint64_t next_cookie)
{
	struct listing *l = arg;
	char text[256]; /* the tree cuts names to 255 bytes */

	(void)node;
	(void)next_cookie;
	memcpy(text, name, SF_MIN(len, sizeof(text) - 1));
	text[SF_MIN(len, sizeof(text) - 1)] = '\0';
	l->ended = l->each(l->arg, text,
	                   type == SF_NODE_DIR    ? SHARDFUSE_DIR
	                   : type == SF_NODE_LINK ? SHARDFUSE_LINK
	                                          : SHARDFUSE_FILE);
	return l->ended != 0;
}

int shardfuse_list(struct shardfuse *h, const char *path,
                   int (*each)(void *arg, const char *name, int type), void *arg,
                   struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct listing l = { each, arg, 0 };
	sf_node node;
	int r = sf_tree_walk(h->s.tree, path, true, &node, &e);

	if (r >= 0) {
		r = sf_tree_readdir(h->s.tree, node, 0, list_entry, &l);
		if (r < 0)
			sf_fail(&e, r, "'%s': %s", path,
			        r == -ENOTDIR ? "not a directory" : strerror(-r));
	}
	return r < 0 ? sf_public_fail(err, &e, r) : l.ended;
}

int shardfuse_file_open(struct shardfuse *h, const char *path, struct shardfuse_file **ret,
                        struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_file *f = calloc(1, sizeof(*f));
	sf_node node;
	int r = f ? sf_tree_walk(h->s.tree, path, true, &node, &e)
	          : sf_fail(&e, -ENOMEM, "'%s'", path);

	if (r >= 0)
		r = sf_tree_open(h->s.tree, node, &f->file, &e);
	if (r == -EISDIR)
		sf_fail(&e, r, "'%s' is a directory", path);
	if (r >= 0)
		r = sf_vfile_prepare(f->file, &e);
	if (r >= 0)
		r = sf_vfile_size(f->file, &f->size);
	if (r < 0) {
		shardfuse_file_close(f);
		return sf_public_fail(err, &e, r);
	}
	f->ahead = sf_vfile_join_readahead(f->file) != NULL;
	*ret = f;
	return 0;
}

uint64_t shardfuse_file_size(const struct shardfuse_file *f)
{
	return f->size;
}

int64_t shardfuse_file_pread(struct shardfuse_file *f, void *buf, size_t len, uint64_t off,
                             struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int64_t r = sf_vfile_pread(f->file, off, buf, len, &e);

	return r < 0 ? sf_public_fail(err, &e, (int)r) : r;
}

void shardfuse_file_close(struct shardfuse_file *f)
{
	if (!f)
		return;
	if (f->ahead)
		sf_vfile_leave_readahead(f->file);
	sf_vfile_unref(f->file);
	free(f);
}

/* ---- objects ---- */

static int find_object(const struct shardfuse *h, uint64_t object, uint32_t *ret_entry,
                       struct sf_error *err)
{
	const struct sf_catalog *c = h->s.catalog;

	if (object >= c->nobjects)
		return sf_fail(err, -EINVAL, "object %llu of %u", (unsigned long long)object,
		               c->nobjects);
	*ret_entry = h->object[object];
	return 0;
}

int shardfuse_object_info(const struct shardfuse *h, uint64_t object, struct shardfuse_object *ret,
                          struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	uint32_t entry = SF_NONE;
	int r = find_object(h, object, &entry, &e);

	if (r >= 0) {
		const struct sf_entry *at = &h->s.catalog->entry[entry];
		struct shardfuse_object out = {
			.key = at->name, .key_len = at->len, .group = at->group, .order = entry
		};
		r = sf_public_give(ret, &out, sizeof(out), &e);
	}
	return sf_public_fail(err, &e, r);
}

static int to_json(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	(void)object;
	return sf_value_json(arg, v->root, err);
}

int shardfuse_object_json(struct shardfuse *h, uint64_t object, char **ret,
                          struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_buf b = { .limit = 1u << 30 };
	uint32_t entry = SF_NONE, which;
	int r = find_object(h, object, &entry, &e);

	if (r >= 0) {
		which = h->s.catalog->entry[entry].object;
		r = sf_objects_load(h->s.reader, &which, 1, to_json, &b, &e);
	}
	if (r >= 0) {
		sf_buf_byte(&b, 0);
		r = sf_buf_check(&b);
		if (r < 0)
			sf_fail(&e, r, "a value of more than %zu bytes of JSON", b.limit);
	}
	if (r < 0) {
		sf_buf_release(&b);
		return sf_public_fail(err, &e, r);
	}
	*ret = (char *)b.at;
	return 0;
}

int shardfuse_object_pt(struct shardfuse *h, uint64_t object, void **ret, size_t *ret_len,
                        struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_vfile *f = NULL;
	struct sf_selection sel = { .n = 1, .cast = true, .bare = true };
	uint32_t entry = SF_NONE;
	int r = find_object(h, object, &entry, &e);

	sel.entry = &entry;
	if (r >= 0)
		r = sf_view_pt(h->s.catalog, h->s.reader, &sel, &f, &e);
	if (r >= 0)
		r = sf_vfile_read_all(f, ret, ret_len, &e);
	sf_vfile_unref(f);
	return sf_public_fail(err, &e, r);
}
