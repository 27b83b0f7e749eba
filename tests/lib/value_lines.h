/* The leaves of a file of torch.save as text, as contrib/gen-fixtures/gen_torch_save.py writes
 * them. */
#ifndef SF_TESTS_LIB_VALUE_LINES_H
#define SF_TESTS_LIB_VALUE_LINES_H

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/torch_archive.h"
#include "parse/value_walk.h"
#include "tests/lib/sf_test.h"

struct value_lines {
	const uint8_t *file;
	const struct sf_torch_archive *a;
	struct sf_buf out;
};

static inline void value_lines_tensor(struct value_lines *l, const struct sf_torch_tensor *t)
{
	const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)t->dtype);
	const struct sf_torch_record *s = sf_torch_record_find(
		l->a->storage, l->a->nstorages, t->storage_key->str.at, t->storage_key->str.len);
	uint64_t index[SF_DIMS_MAX] = { 0 }, n = 1;
	uint8_t digest[SF_SHA256_BYTES];
	struct sf_buf dense = { 0 };

	ck_assert_msg(s != NULL, "storage %s", t->storage_key->str.at);
	for (unsigned d = 0; d < t->ndim; d++)
		n *= t->shape[d];
	for (; n; n--) {
		uint64_t at = t->storage_off;
		for (unsigned d = 0; d < t->ndim; d++)
			at += index[d] * (uint64_t)t->stride[d];
		ck_assert_uint_le((at + 1) * info->bytes, s->len);
		const uint8_t *p = l->file + s->off + at * info->bytes;
		for (unsigned i = 0; i < info->bytes; i++)
			sf_buf_byte(&dense, p[l->a->big_endian ? info->bytes - 1 - i : i]);
		if (t->conj)
			dense.at[dense.len - 1] ^= 0x80;
		for (unsigned d = t->ndim; d-- > 0;) {
			if (++index[d] < t->shape[d])
				break;
			index[d] = 0;
		}
	}
	sf_sha256(dense.at, dense.len, digest);
	sf_buf_printf(&l->out, " %s ", info->torch);
	for (unsigned d = 0; d < t->ndim; d++)
		sf_buf_printf(&l->out, "%s%llu", d ? "," : "", (unsigned long long)t->shape[d]);
	sf_buf_byte(&l->out, ' ');
	for (unsigned i = 0; i < sizeof(digest); i++)
		sf_buf_printf(&l->out, "%02x", digest[i]);
	sf_buf_release(&dense);
}

static inline int value_lines_leaf(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	static const char *const form[] = { [SF_PATH_TEXT] = "/%.*s",
		                            [SF_PATH_LIST] = "[%.*s]",
		                            [SF_PATH_INT] = "#%.*s",
		                            [SF_PATH_TUPLE] = "(%.*s)" };
	struct value_lines *l = w->arg;
	size_t n = 0;
	const struct sf_path_elem *path = sf_value_walk_path(w, &n);

	ck_assert_ptr_nonnull(path);
	ck_assert(what == SF_WALK_TENSOR || what == SF_WALK_VALUE);
	sf_buf_str(&l->out, what == SF_WALK_TENSOR ? "T " : "V ");
	for (size_t i = 0; i < n; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		sf_buf_printf(&l->out, form[path[i].kind], (int)path[i].len, path[i].s);
#pragma GCC diagnostic pop
	}
	if (what == SF_WALK_TENSOR)
		value_lines_tensor(l, &w->t);
	sf_buf_byte(&l->out, '\n');
	return 0;
}

/* A line for each leaf, behind what is in @out. @file: the container's bytes. */
static inline void value_lines(struct sf_buf *out, const uint8_t *file,
                               const struct sf_torch_archive *a)
{
	struct value_lines l = { .file = file, .a = a, .out = *out };
	struct sf_value_walk w = { .tell = value_lines_leaf,
		                   .arg = &l,
		                   .leaves = true,
		                   .depth_max = 100,
		                   .nodes_max = 1000,
		                   .name_max = 1000 };

	ck_assert_int_eq(sf_value_walk(&w, a->root), 0);
	sf_value_walk_release(&w);
	*out = l.out;
}

#endif
