/* A small checkpoint in memory for tests of the catalog, the tree and the views: any names, raw
 * items, through the real layers. */
#ifndef SF_TESTS_LIB_VIEW_WORLD_H
#define SF_TESTS_LIB_VIEW_WORLD_H

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "read/reader.h"
#include "sf_test.h"
#include "catalog/catalog.h"
#include "tests/lib/test_stores.h"
#include "view/view.h"

#define VW_FILES 64

struct vw {
	struct sf_io io;
	struct sf_ckpt_builder *b;
	struct sf_buf data; /* file "data": all items */
	uint32_t raw, torch;
	struct sf_mem_object file[VW_FILES];
	size_t nfiles;
	struct sf_store *store;
	struct sf_ckpt *ckpt;
	struct sf_reader *reader;
	struct sf_view_options opt;
	struct sf_catalog *cat;
};

#define vw_ok(expr)                                                      \
	do {                                                             \
		struct sf_error err = SF_ERROR_INIT;                     \
		int r_ = (expr);                                         \
		ck_assert_msg(r_ >= 0, "%s: %d %s", #expr, r_, err.msg); \
	} while (0)

static inline void vw_init(struct vw *w)
{
	*w = (struct vw){ .nfiles = 1 };
	vw_ok(sf_io_init(&w->io, 2, &err));
	vw_ok(sf_ckpt_builder_new("test", "mem", &w->b, &err));
	vw_ok(sf_ckpt_builder_place(w->b, "data", 4, SF_ITEM_RAW, SF_CODEC_NONE, &w->raw, &err));
	vw_ok(sf_ckpt_builder_place(w->b, "data", 4, SF_ITEM_TORCH, SF_CODEC_NONE, &w->torch,
	                            &err));
	sf_view_options_init(&w->opt);
}

/* The path of a key: its name split at dots. */
static inline void vw_split(struct vw *w, const char *name, size_t len)
{
	struct sf_path_elem path[64];
	size_t n = 0;

	for (size_t from = 0, i = 0; i <= len; i++)
		if (i == len || name[i] == '.') {
			ck_assert_uint_lt(n, 64);
			path[n++] = (struct sf_path_elem){ .s = name + from,
				                           .len = (uint32_t)(i - from) };
			from = i + 1;
		}
	vw_ok(sf_ckpt_builder_path(w->b, name, len, path, n, &err));
}

/* Rows of the first dimension are cut into @nchunks. Element bytes are pseudo-random but the same
 * every time. */
static inline void vw_tensor_n(struct vw *w, const char *name, size_t len, enum sf_dtype dtype,
                               unsigned ndim, const uint64_t *shape, uint32_t nchunks)
{
	uint64_t origin[8] = { 0 }, extent[8] = { 0 }, rest = sf_dtype_info(dtype)->bytes;
	uint32_t t;

	vw_ok(sf_ckpt_builder_tensor(w->b, name, len, dtype, shape, ndim, &t, &err));
	for (unsigned d = 0; d < ndim; d++) {
		extent[d] = shape[d];
		rest *= d ? shape[d] : 1;
	}
	for (uint32_t c = 0; c < nchunks; c++) {
		uint64_t rows = 1;
		if (ndim) {
			origin[0] = shape[0] * c / nchunks;
			rows = extent[0] = shape[0] * (c + 1) / nchunks - origin[0];
		}
		vw_ok(sf_ckpt_builder_chunk(w->b, origin, extent, &err));
		sf_ckpt_builder_set_item(w->b, t, c, w->raw, w->data.len, rows * rest);
		for (uint64_t i = 0; i < rows * rest; i++)
			sf_buf_byte(&w->data, (uint8_t)(w->data.len * 31 + w->data.len / 251 + t));
	}
}

static inline void vw_tensor(struct vw *w, const char *name, enum sf_dtype dtype, unsigned ndim,
                             const uint64_t *shape)
{
	vw_tensor_n(w, name, strlen(name), dtype, ndim, shape, 1);
	vw_split(w, name, strlen(name));
}

/* A key of one float; the path is the name whole. */
static inline void vw_flat(struct vw *w, const char *name, size_t len)
{
	const uint64_t one = 1;

	vw_tensor_n(w, name, len, SF_FLOAT32, 1, &one, 1);
}

/* An object that nobody reads in these tests. */
static inline void vw_object(struct vw *w, const char *name)
{
	uint32_t o;

	vw_ok(sf_ckpt_builder_object(w->b, name, strlen(name), &o, &err));
	sf_ckpt_builder_set_object(w->b, o, w->torch, w->data.len, 4);
	sf_buf_str(&w->data, "none");
	vw_split(w, name, strlen(name));
}

struct vw_listing {
	struct sf_objinfo at[VW_FILES];
	size_t n;
};
static inline int vw_list(void *arg, const struct sf_objinfo *info)
{
	struct vw_listing *l = arg;

	l->at[l->n++] = *info;
	return 0;
}

/* A stored file besides "data", for shards/. */
static inline void vw_file(struct vw *w, const char *name, const char *text)
{
	w->file[w->nfiles++] = (struct sf_mem_object){ name, text, strlen(text) };
}

static inline void vw_load(struct vw *w)
{
	struct vw_listing *list = calloc(1, sizeof(*list));

	w->file[0] = (struct sf_mem_object){ "data", w->data.at, w->data.len };
	vw_ok(sf_store_mem(&w->io, w->file, w->nfiles, &w->store, &err));
	vw_ok(w->store->ops->list(w->store, "", 8, vw_list, list, &err));
	vw_ok(sf_ckpt_builder_listing(w->b, list->at, list->n, &err));
	vw_ok(sf_ckpt_builder_finish(w->b, &w->ckpt, &err));
	w->b = NULL;
	free(list);
	vw_ok(sf_reader_new(w->ckpt, w->store, &w->reader, &err));
}

static inline void vw_open(struct vw *w)
{
	if (!w->ckpt)
		vw_load(w);
	sf_catalog_free(w->cat);
	w->cat = NULL;
	vw_ok(sf_catalog_new(w->ckpt, &w->opt, &w->cat, &err));
}

static inline void vw_close(struct vw *w)
{
	sf_catalog_free(w->cat);
	sf_reader_free(w->reader);
	sf_ckpt_free(w->ckpt);
	sf_ckpt_builder_free(w->b);
	sf_store_free(w->store);
	sf_io_release(&w->io);
	sf_buf_release(&w->data);
}

/* A whole virtual file, malloc'ed with a NUL behind; takes the reference. */
static inline uint8_t *vw_read(struct sf_vfile *f, uint64_t *ret_len)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size = 0;

	ck_assert_msg(sf_vfile_prepare(f, &err) >= 0, "%s", err.msg);
	ck_assert_int_eq(sf_vfile_size(f, &size), 0);
	uint8_t *at = malloc(size + 1);
	ck_assert_msg(sf_vfile_pread(f, 0, at, size + 7, &err) == (int64_t)size, "%s", err.msg);
	at[size] = 0;
	*ret_len = size;
	sf_vfile_unref(f);
	return at;
}

/* Any range of the file is what the whole has there. Keeps the reference. */
static inline void vw_check_ranges(struct sf_vfile *f, uint64_t *rnd, int times)
{
	uint64_t len;
	uint8_t *whole = vw_read(sf_vfile_ref(f), &len), *part = malloc(len + 1);

	for (int i = 0; i < times && len; i++) {
		uint64_t off = sf_test_below(rnd, len), n = 1 + sf_test_below(rnd, len - off);
		ck_assert_int_eq(sf_vfile_pread(f, off, part, n, NULL), (int64_t)n);
		ck_assert_mem_eq(part, whole + off, n);
	}
	free(part);
	free(whole);
}

/* The dense bytes of a tensor, malloc'ed. */
static inline uint8_t *vw_dense(struct vw *w, uint32_t entry, uint64_t *ret_len)
{
	struct sf_vfile *f;

	vw_ok(sf_view_raw(w->cat, w->reader, entry, &f, &err));
	return vw_read(f, ret_len);
}

#endif
