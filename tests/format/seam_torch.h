/* A file of torch.save, its leaves the keys of the tests' own format, and the .pt view of them. */
#ifndef SF_TESTS_FORMAT_SEAM_TORCH_H
#define SF_TESTS_FORMAT_SEAM_TORCH_H

#include "parse/torch_archive.h"
#include "parse/value_walk.h"
#include "seam_world.h"

/* The .pt file of all keys, opened as any other. */
static inline void open_pt(struct seam *w, const struct sf_selection *sel, struct sf_arena *arena,
                           uint8_t **ret, uint64_t *ret_len, struct sf_torch_archive *a)
{
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_torch_options opt = { 0 };
	struct sf_vfile *f;

	ck_assert_msg(sf_view_pt(w->s.catalog, w->s.reader, sel, &f, &err) >= 0, "%s", err.msg);
	*ret = seam_read(f, ret_len);
	const struct sf_torch_input in = { *ret_len, *ret, NULL, NULL };
	ck_assert_msg(sf_torch_open(&in, &opt, arena, a, &err) >= 0, "%s", err.msg);
}

static struct {
	uint8_t at[16384];
	size_t len;
	struct sf_buf leaves; /* what torch says is in it */
} torch_file;

struct lowering {
	struct sf_ckpt_builder *b;
	const struct sf_torch_archive *a;
	uint32_t place;
	struct sf_error *err;
	struct {
		const char *key;
		struct sf_torch_tensor t;
	} seen[32]; /* tensors so far */
	uint32_t nseen;
};

static bool dense(const struct sf_torch_tensor *t)
{
	uint64_t step = 1;

	for (unsigned d = t->ndim; d-- > 0; step *= t->shape[d])
		if (t->shape[d] != 1 && (uint64_t)t->stride[d] != step)
			return false;
	return !t->conj && !t->neg;
}

static int lower_tensor(struct lowering *l, const char *key, size_t len,
                        const struct sf_torch_tensor *t)
{
	const struct sf_torch_record *s = sf_torch_record_find(
		l->a->storage, l->a->nstorages, t->storage_key->str.at, t->storage_key->str.len);
	uint64_t bytes = sf_dtype_info((enum sf_dtype)t->dtype)->bytes,
		 off = s->off + t->storage_off * bytes, zero[8] = { 0 };
	uint32_t tensor;
	int r = sf_ckpt_builder_tensor(l->b, key, len, (enum sf_dtype)t->dtype, t->shape, t->ndim,
	                               &tensor, l->err);

	for (unsigned d = 0; d < t->ndim; d++)
		bytes *= t->shape[d];
	if (r >= 0)
		r = sf_ckpt_builder_chunk(l->b, zero, t->shape, l->err);
	if (r < 0)
		return r;
	sf_ckpt_builder_set_item(l->b, tensor, 0, l->place, off, bytes);
	/* the same view of the same storage, as tied weights are */
	ck_assert_uint_eq(tensor, l->nseen);
	ck_assert_uint_lt(tensor, SF_ARRAY_LEN(l->seen));
	for (uint32_t i = 0; i < tensor && r >= 0; i++) {
		const struct sf_torch_tensor *u = &l->seen[i].t;
		if (strcmp(l->seen[i].key, s->key) == 0 && u->storage_off == t->storage_off &&
		    u->dtype == t->dtype && u->ndim == t->ndim &&
		    memcmp(u->shape, t->shape, t->ndim * sizeof(*t->shape)) == 0) {
			r = sf_ckpt_builder_tie(l->b, tensor, i, l->err);
			break;
		}
	}
	l->seen[tensor].key = s->key;
	l->seen[l->nseen++].t = *t;
	return r;
}

static int lower_leaf(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	struct lowering *l = w->arg;
	const char *key = (const char *)w->name.at;
	const struct sf_path_elem *path;
	uint32_t object;
	size_t n = 0;
	int r;

	ck_assert(what == SF_WALK_TENSOR || what == SF_WALK_VALUE);
	if (what == SF_WALK_TENSOR && dense(&w->t)) {
		r = lower_tensor(l, key, w->name.len, &w->t);
	} else {
		r = sf_ckpt_builder_object(l->b, key, w->name.len, &object, l->err);
		if (r >= 0)
			r = sf_ckpt_builder_set_value(l->b, object, v, l->a, l->place, 0,
			                              torch_file.len, l->err);
	}
	path = sf_value_walk_path(w, &n);
	return r < 0 ? r : sf_ckpt_builder_path(l->b, key, w->name.len, path, n, l->err);
}

/* @place: raw items of a container that is all of torch_file. */
static inline int seam_torch_lower(struct sf_ckpt_builder *b, uint32_t place, struct sf_error *err)
{
	const struct sf_torch_input in = { torch_file.len, torch_file.at, NULL, NULL };
	const struct sf_torch_options opt = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct lowering l = { .b = b, .a = &a, .place = place, .err = err };
	struct sf_value_walk w = { .tell = lower_leaf,
		                   .arg = &l,
		                   .leaves = true,
		                   .depth_max = 100,
		                   .nodes_max = 1000,
		                   .name_max = 1000 };
	int r = sf_torch_open(&in, &opt, &arena, &a, err);

	if (r >= 0)
		r = sf_value_walk(&w, a.root);
	sf_value_walk_release(&w);
	sf_arena_release(&arena);
	return r;
}

static inline void load_torch(const char *name)
{
	static const char *const end[] = { "pt", "leaves" };
	char rel[64], path[4096];
	uint8_t at[16384];

	sf_buf_release(&torch_file.leaves);
	for (int i = 0; i < 2; i++) {
		snprintf(rel, sizeof(rel), "torch-save/%s.%s", name, end[i]);
		FILE *f = fopen(sf_test_data(path, rel), "rb");
		ck_assert_msg(f != NULL, "%s", path);
		size_t n = fread(at, 1, sizeof(at), f);
		fclose(f);
		ck_assert_uint_lt(n, sizeof(at));
		if (i == 0)
			memcpy(torch_file.at, at, torch_file.len = n);
		else
			sf_buf_add(&torch_file.leaves, at, n);
	}
}

#endif
