/* A key as the tree shows it: every path is there, has its size, and can be read. */
#ifndef SF_TESTS_FORMAT_SEAM_TREE_H
#define SF_TESTS_FORMAT_SEAM_TREE_H

#include <stdio.h>

#include "base/json.h"
#include "base/path.h"
#include "seam_world.h"

struct seam_walk {
	struct seam *w;
	const char *key;
	const void *want;
	uint64_t len;
	bool whole; /* every key can be read */
	char path[2048];
	unsigned raw, npy, pt, st, info; /* files of the key that were met */
};

/* Files that hold other keys may fail where one of those cannot be read. */
static inline bool seam_whole(struct seam *w)
{
	const struct sf_catalog *c = w->s.catalog;
	bool whole = true;

	for (uint32_t i = 0; i < c->n && whole; i++) {
		struct sf_vfile *f;
		uint64_t size = 0;
		bool is_tensor = c->entry[i].tensor != SF_NONE;
		int r = is_tensor ? sf_view_raw(c, w->s.reader, i, &f, NULL)
		                  : sf_view_value_json(c, w->s.reader, i, &f, NULL);
		ck_assert_int_ge(r, 0);
		whole = sf_vfile_prepare(f, NULL) >= 0 && sf_vfile_size(f, &size) >= 0;
		uint8_t *at = malloc(size + 1);
		whole = whole && sf_vfile_pread(f, 0, at, size, NULL) == (int64_t)size;
		free(at);
		sf_vfile_unref(f);
	}
	return whole;
}

/* What the file has, malloc'ed, or why not. Its size is told the same by all that tell it. */
static inline uint8_t *seam_tree_read(struct seam *w, sf_node n, uint64_t *ret_size,
                                      struct sf_error *err)
{
	struct sf_tree *t = w->s.tree;
	struct sf_vfile *f = NULL;
	struct sf_attr a;
	uint64_t size;
	uint8_t *at = NULL;

	if (sf_tree_prepare(t, n, err) < 0)
		return NULL;
	ck_assert_int_eq(sf_tree_attr(t, n, &a), 0);
	if (sf_tree_open(t, n, &f, err) < 0)
		return NULL;
	if (sf_vfile_prepare(f, err) >= 0) {
		ck_assert_int_eq(sf_vfile_size(f, &size), 0);
		ck_assert_uint_eq(size, a.size);
		at = malloc(size + 1);
		if (sf_vfile_pread(f, 0, at, size, err) != (int64_t)size) {
			free(at);
			at = NULL;
		}
		*ret_size = size;
	}
	sf_vfile_unref(f);
	return at;
}

/* The same of a path that must be there. */
static inline uint8_t *seam_path_read(struct seam *w, const char *path, uint64_t *ret_size)
{
	struct sf_error err = SF_ERROR_INIT;
	sf_node n;

	ck_assert_msg(sf_tree_walk(w->s.tree, path, true, &n, &err) >= 0, "%s", err.msg);
	uint8_t *at = seam_tree_read(w, n, ret_size, &err);
	ck_assert_msg(at != NULL, "%s: %s", path, err.msg);
	return at;
}

static inline void seam_json_parse(uint8_t *at, uint64_t size, struct sf_json **ret,
                                   const char *path)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_json_parse((const char *)at, size, ret, &err) >= 0, "%s: %s", path,
	              err.msg);
	free(at);
}

/* A file of the key alone. */
static inline void seam_own_file(struct seam_walk *v, uint8_t *at, uint64_t size)
{
	const char *path = v->path;

	if (sf_has_suffix(path, ".raw")) {
		seam_same(at, 0, size, v->len, v->want, path);
		v->raw++;
	} else if (sf_has_suffix(path, ".npy")) {
		ck_assert_uint_gt(size, v->len);
		seam_same(at, size - v->len, v->len, v->len, v->want, path);
		v->npy++;
	} else if (sf_has_suffix(path, ".pt")) {
		seam_same_pt(at, size, v->want, v->len, path);
		v->pt++;
	} else if (sf_has_suffix(path, ".safetensors")) {
		seam_same_st(at, NULL, 0, v->want, v->len, path);
		v->st++;
	} else {
		struct sf_json *json;
		const char *key;
		seam_json_parse(at, size, &json, path);
		ck_assert_int_eq(sf_json_get_str(sf_json_root(json), "key", &key, NULL), 0);
		ck_assert_str_eq(key, v->key);
		sf_json_free(json);
		v->info++;
	}
}

static inline int seam_visit(void *arg, const char *name, size_t len, sf_node node,
                             enum sf_node_type type, uint64_t next_cookie)
{
	struct sf_error err = SF_ERROR_INIT;
	struct seam_walk *v = arg;
	struct sf_tree *t = v->w->s.tree;
	const size_t before = strlen(v->path);
	struct sf_attr a;
	char fqn[256];
	uint64_t size;
	sf_node n;

	(void)next_cookie;
	snprintf(v->path + before, sizeof(v->path) - before, "%s%.*s", before ? "/" : "", (int)len,
	         name);
	ck_assert_int_eq(sf_tree_walk(t, v->path, false, &n, &err), 0);
	ck_assert_msg(n == node, "%s: another node is found than is listed", v->path);
	if (type == SF_NODE_DIR) {
		ck_assert_int_eq(sf_tree_readdir(t, n, 0, seam_visit, v), 0);
	} else if (type == SF_NODE_LINK) {
		ck_assert_int_eq(sf_tree_walk(t, v->path, true, &n, &err), 0);
	} else {
		int r = sf_tree_attr(t, n, &a);
		int got = sf_tree_getxattr(t, n, "user.shardfuse.fqn", fqn, sizeof(fqn));
		bool own = got == (int)strlen(v->key) && memcmp(fqn, v->key, strlen(v->key)) == 0;
		uint8_t *at = r >= 0 && a.live ? NULL : seam_tree_read(v->w, n, &size, &err);
		/* what is stored is shown whether keys can be read or not */
		ck_assert_msg(at || (r >= 0 && a.live) ||
		                      (!own && !v->whole && strncmp(v->path, "shards/", 7) != 0),
		              "%s: %s", v->path, err.msg);
		if (at && own)
			seam_own_file(v, at, size);
		else
			free(at);
	}
	v->path[before] = '\0';
	return 0;
}

/* tensors.json has every tensor once, this one with what is known of it; info.json counts them. */
static inline void seam_check_json(struct seam *w, const char *key, uint64_t len)
{
	const struct sf_catalog *c = w->s.catalog;
	const struct sf_tensor *t = &w->s.ckpt->tensor[c->entry[seam_entry(w, key)].tensor];
	const struct cJSON *list, *one = NULL;
	struct sf_json *json;
	unsigned found = 0, n = 0;
	const char *text;
	uint64_t size, got[SF_DIMS_MAX];

	uint8_t *at = seam_path_read(w, "tensors.json", &size);
	seam_json_parse(at, size, &json, "tensors.json");
	ck_assert_int_eq(sf_json_get_arr(sf_json_root(json), "tensors", &list, NULL), 0);
	while ((one = sf_json_next(list, one))) {
		n++;
		ck_assert_int_eq(sf_json_get_str(one, "key", &text, NULL), 0);
		if (strcmp(text, key) != 0)
			continue;
		found++;
		ck_assert_int_eq(sf_json_get_str(one, "dtype", &text, NULL), 0);
		ck_assert_str_eq(text, sf_dtype_info((enum sf_dtype)t->dtype)->torch);
		ck_assert_int_eq(sf_json_get_u64s(one, "shape", got, SF_DIMS_MAX, NULL), t->ndim);
		ck_assert_mem_eq(got, t->shape, t->ndim * sizeof(*got));
		ck_assert_int_eq(sf_json_get_u64(one, "bytes", got, NULL), 0);
		ck_assert_uint_eq(got[0], len);
	}
	ck_assert_uint_eq(found, 1);
	ck_assert_uint_eq(n, c->ntensors);
	sf_json_free(json);

	at = seam_path_read(w, "info.json", &size);
	seam_json_parse(at, size, &json, "info.json");
	ck_assert_int_eq(sf_json_get_str(sf_json_root(json), "format", &text, NULL), 0);
	ck_assert_str_eq(text, "seam");
	ck_assert_int_eq(sf_json_get_u64(sf_json_root(json), "tensors", got, NULL), 0);
	ck_assert_uint_eq(got[0], c->ntensors);
	sf_json_free(json);
}

/* hf/, where the key is one of those that it shows. */
static inline void seam_check_hf(struct seam_walk *v)
{
	const uint32_t entry = seam_entry(v->w, v->key);
	struct sf_hf *hf;
	char path[300];
	uint64_t size;

	if (sf_hf_new(v->w->s.catalog, &hf, NULL) < 0) {
		ck_assert_int_eq(sf_tree_walk(v->w->s.tree, "hf", true, &(sf_node){ 0 }, NULL),
		                 -ENOENT);
		return;
	}
	for (uint32_t f = 0; f < hf->nfiles; f++)
		for (uint32_t i = 0; i < hf->file[f].sel.n; i++) {
			const struct sf_selection *sel = &hf->file[f].sel;
			if (sel->entry[i] != entry)
				continue;
			snprintf(path, sizeof(path), "hf/%s", hf->file[f].name);
			if (!v->whole)
				continue;
			seam_same_st(seam_path_read(v->w, path, &size), sel->names[i],
			             sel->name_lens[i], v->want, v->len, path);
			v->w->in_hf++;
		}
	sf_hf_free(hf);
}

static inline void seam_check_tree(struct seam *w, const char *key, const void *want, uint64_t len)
{
	struct seam_walk v = { .w = w, .key = key, .want = want, .len = len };

	v.whole = seam_whole(w);
	ck_assert_int_eq(sf_tree_readdir(w->s.tree, SF_NODE_ROOT, 0, seam_visit, &v), 0);
	/* state/…/tensor.* and its info.json; npy/ pt/ safetensors/ */
	ck_assert_uint_eq(v.raw, 1);
	ck_assert_uint_eq(v.npy, 2);
	ck_assert_uint_eq(v.pt, 2);
	ck_assert_uint_eq(v.st, 2);
	ck_assert_uint_eq(v.info, 1);
	seam_check_json(w, key, len);
	seam_check_hf(&v);
}

/* The key's dense bytes through every view, at the tree's paths, and any range of them, with a
 * buffer of the caller's and without. */
static inline void seam_check(struct seam *w, const char *key, const void *want, uint64_t len)
{
	const uint32_t tensor = w->s.catalog->entry[seam_entry(w, key)].tensor;
	struct sf_error err = SF_ERROR_INIT;
	uint8_t *at = malloc(len + 1);

	seam_check_tree(w, key, want, len);
	for (uint64_t off = 0; off < len; off++)
		for (uint64_t n = 1; off + n <= len; n++) {
			ck_assert_msg(sf_read_tensor(w->s.reader, tensor, off, at, n, &err) >= 0,
			              "%s", err.msg);
			ck_assert_mem_eq(at, (const uint8_t *)want + off, n);
		}
	free(at);
}

#endif
