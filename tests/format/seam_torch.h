/* A file of torch.save, its leaves the keys of the tests' own format, and the .pt view of them. */
#ifndef SF_TESTS_FORMAT_SEAM_TORCH_H
#define SF_TESTS_FORMAT_SEAM_TORCH_H

#include "format/torch/torch_lower.h"
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

/* Strided tensors are values, not tensors with strides. */
static bool seam_values_only_dense = true;

/* As a format might: a strided tensor stays the value that it is in the pickle. */
struct seam_strided {
	struct sf_ckpt_builder *b;
	struct sf_torch_part *part;
};
static int seam_take_strided(void *arg, struct sf_value_walk *w, enum sf_walk_what what,
                             struct sf_pv *v)
{
	struct seam_strided *to = arg;
	const char *key = (const char *)w->name.at;
	const struct sf_path_elem *path;
	uint64_t step = 1;
	bool dense = true;
	size_t n = 0;
	int r;

	for (unsigned d = w->t.ndim; what == SF_WALK_TENSOR && d-- > 0; step *= w->t.shape[d])
		dense = dense && (w->t.shape[d] == 1 || (uint64_t)w->t.stride[d] == step);
	if (what != SF_WALK_TENSOR || (dense && !w->t.conj && !w->t.neg))
		return 0;
	r = sf_torch_lower_value(to->b, to->part, key, w->name.len, v, NULL);
	path = sf_value_walk_path(w, &n);
	ck_assert_ptr_nonnull(path);
	if (r >= 0)
		r = sf_ckpt_builder_path(to->b, key, w->name.len, path, n, NULL);
	return r < 0 ? r : 1;
}

/* @place: raw items of a container that is all of torch_file. */
static inline int seam_torch_lower(struct sf_ckpt_builder *b, uint32_t place, struct sf_error *err)
{
	const struct sf_torch_input in = { torch_file.len, torch_file.at, NULL, NULL };
	const struct sf_torch_options opt = { 0 };
	const struct sf_objinfo file = { .name = "file.pt", .size = torch_file.len };
	struct sf_torch_part part = { .file = &file, .len = torch_file.len, .place = place };
	struct sf_torch_ties ties = { 0 };
	struct seam_strided to = { b, &part };
	const struct sf_torch_lower l = { .b = b,
		                          .part = &part,
		                          .ties = &ties,
		                          .leaf = seam_values_only_dense ? seam_take_strided : NULL,
		                          .arg = &to };
	int r = sf_torch_open(&in, &opt, &part.arena, &part.archive, err);

	if (r >= 0)
		r = sf_torch_lower(&l, part.archive.root, err);
	sf_torch_ties_release(&ties);
	sf_torch_parts_release(&part, 1);
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
