/* A checkpoint in memory for tests of views: tensors as raw items, objects as torch archives, all
 * through the real layers. */
#ifndef SF_TESTS_LIB_PT_WORLD_H
#define SF_TESTS_LIB_PT_WORLD_H

#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "read/reader.h"
#include "sf_test.h"
#include "catalog/catalog.h"
#include "tests/lib/test_stores.h"
#include "view/view.h"

#ifndef WORLD_KEYS
#define WORLD_KEYS 4096
#endif

struct world_key {
	char name[64], path_text[8][16];
	struct sf_path_elem path[8];
	unsigned npath;
	enum sf_dtype dtype; /* SF_DTYPE_NONE: an object */
	uint64_t shape[4], off, len;
	unsigned ndim;
	bool nowhere; /* no stored item */
};
struct world {
	struct sf_buf data; /* the one stored file */
	struct world_key *key;
	uint32_t n;
	struct sf_mem_object stored;
	struct sf_io io;
	struct sf_store *store;
	struct sf_ckpt *ckpt;
	struct sf_reader *reader;
	struct sf_view_options opt;
	struct sf_catalog *cat;
	uint32_t all[WORLD_KEYS]; /* every entry: a selection */
};

static inline void world_init(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->key = calloc(WORLD_KEYS, sizeof(*w->key));
	sf_buf_str(&w->data, "sf-test!");
	sf_view_options_init(&w->opt);
}

/* "a/b/#3": a text element each, a position after '#'. The name is the elements joined by dots. */
static inline struct world_key *world_add(struct world *w, const char *path)
{
	struct world_key *k = &w->key[w->n++];
	const char *at = path;

	for (k->npath = 0;; k->npath++) {
		bool pos = *at == '#';
		size_t n = strcspn(at += pos, "/");
		memcpy(k->path_text[k->npath], at, n);
		k->path[k->npath] =
			(struct sf_path_elem){ k->path_text[k->npath], (uint32_t)n, pos };
		snprintf(k->name + strlen(k->name), sizeof(k->name) - strlen(k->name), "%s%.*s",
		         k->npath ? "." : "", (int)n, at);
		at += n;
		if (!*at)
			break;
		at++;
	}
	k->npath++;
	k->off = w->data.len;
	return k;
}

static inline struct world_key *world_tensor(struct world *w, const char *path, enum sf_dtype dtype,
                                             unsigned ndim, const uint64_t *shape)
{
	struct world_key *k = world_add(w, path);

	k->dtype = dtype;
	k->ndim = ndim;
	k->len = sf_dtype_info(dtype)->bytes;
	for (unsigned d = 0; d < ndim; d++)
		k->len *= k->shape[d] = shape[d];
	for (uint64_t i = 0; i < k->len; i++)
		sf_buf_byte(&w->data, (uint8_t)(w->n * 37 + i * 11 + i / 256));
	return k;
}

static inline void world_record(struct sf_buf *out, struct sf_zip_entry *e, const char *name,
                                const void *at, size_t len, size_t base)
{
	*e = (struct sf_zip_entry){ .name = name,
		                    .name_len = strlen(name),
		                    .header_off = out->len - base,
		                    .size = len,
		                    .crc = sf_crc32(0, at, len) };
	sf_zip_put_header(out, e);
	sf_buf_add(out, at, len);
}

/* An item as torch.save writes it: data.pkl, then storages (name without archive/data/,
 * content). */
struct world_storage {
	const char *name; /* "archive/data/0" */
	const void *at;
	size_t len;
};
static inline void world_archive(struct sf_buf *out, const void *pkl, size_t len,
                                 const struct world_storage *s, size_t n)
{
	struct sf_zip_entry e[16];
	size_t base = out->len, k = 0, dir;

	world_record(out, &e[k++], "archive/data.pkl", pkl, len, base);
	for (size_t i = 0; i < n; i++)
		world_record(out, &e[k++], s[i].name, s[i].at, s[i].len, base);
	world_record(out, &e[k++], "archive/version", "3\n", 2, base);
	dir = out->len - base;
	for (size_t i = 0; i < k; i++)
		sf_zip_put_central(out, &e[i]);
	sf_zip_put_end(out, k, dir, out->len - base - dir);
}

static inline struct world_key *world_object(struct world *w, const char *path, const void *pkl,
                                             size_t len, const struct world_storage *s, size_t n)
{
	struct world_key *k = world_add(w, path);

	world_archive(&w->data, pkl, len, s, n);
	k->len = w->data.len - k->off;
	return k;
}

struct world_listing {
	struct sf_objinfo at[4];
	size_t n;
};
static inline int world_list(void *arg, const struct sf_objinfo *info)
{
	struct world_listing *l = arg;

	ck_assert_uint_lt(l->n, SF_ARRAY_LEN(l->at));
	l->at[l->n++] = *info;
	return 0;
}

/* Loads what was added. The listing's names are the store's: it is asked once and kept for the
 * call. */
static inline void world_open(struct world *w)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b = NULL;
	uint32_t place[2], index;
	struct world_listing list = { .n = 0 };

	ck_assert_msg(sf_io_init(&w->io, 2, &err) >= 0, "%s", err.msg);
	w->stored = (struct sf_mem_object){ "data", w->data.at, w->data.len };
	ck_assert_msg(sf_store_mem(&w->io, &w->stored, 1, &w->store, &err) >= 0, "%s", err.msg);
	ck_assert_msg(w->store->ops->list(w->store, "", 4, world_list, &list, &err) >= 0, "%s",
	              err.msg);
	ck_assert_msg(sf_ckpt_builder_new("test", "mem", &b, &err) >= 0, "%s", err.msg);
	ck_assert_msg(sf_ckpt_builder_listing(b, list.at, list.n, &err) >= 0, "%s", err.msg);
	ck_assert_msg(sf_ckpt_builder_place(b, "data", 4, SF_ITEM_RAW, SF_CODEC_NONE, &place[0],
	                                    &err) >= 0,
	              "%s", err.msg);
	ck_assert_msg(sf_ckpt_builder_place(b, "data", 4, SF_ITEM_TORCH, SF_CODEC_NONE, &place[1],
	                                    &err) >= 0,
	              "%s", err.msg);
	for (uint32_t i = 0; i < w->n; i++) {
		const struct world_key *k = &w->key[i];
		const uint64_t origin[4] = { 0 };
		size_t len = strlen(k->name);
		if (k->dtype) {
			ck_assert_msg(sf_ckpt_builder_tensor(b, k->name, len, k->dtype, k->shape,
			                                     k->ndim, &index, &err) >= 0,
			              "%s", err.msg);
			ck_assert_msg(sf_ckpt_builder_chunk(b, origin, k->shape, &err) >= 0, "%s",
			              err.msg);
			sf_ckpt_builder_set_item(b, index, 0, place[0], k->off, k->len);
		} else {
			ck_assert_msg(sf_ckpt_builder_object(b, k->name, len, &index, &err) >= 0,
			              "%s", err.msg);
			if (!k->nowhere)
				sf_ckpt_builder_set_object(b, index, place[1], k->off, k->len);
		}
		ck_assert_msg(sf_ckpt_builder_path(b, k->name, len, k->path, k->npath, &err) >= 0,
		              "%s", err.msg);
	}
	ck_assert_msg(sf_ckpt_builder_finish(b, &w->ckpt, &err) >= 0, "%s", err.msg);
	ck_assert_msg(sf_reader_new(w->ckpt, w->store, &w->reader, &err) >= 0, "%s", err.msg);
	ck_assert_msg(sf_catalog_new(w->ckpt, &w->opt, &w->cat, &err) >= 0, "%s", err.msg);
	ck_assert_uint_eq(w->cat->n, w->n);
	for (uint32_t i = 0; i < w->n; i++)
		w->all[i] = i;
}

static inline void world_close(struct world *w)
{
	sf_catalog_free(w->cat);
	sf_reader_free(w->reader);
	sf_ckpt_free(w->ckpt);
	sf_store_free(w->store);
	sf_io_release(&w->io);
	sf_buf_release(&w->data);
	free(w->key);
}

/* A whole virtual file, malloc'ed. */
static inline uint8_t *world_read(struct sf_vfile *f, uint64_t *ret_len)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size = 0;

	ck_assert_msg(sf_vfile_prepare(f, &err) >= 0, "%s", err.msg);
	ck_assert_int_ge(sf_vfile_size(f, &size), 0);
	uint8_t *at = malloc(size + 1);
	ck_assert_msg(sf_vfile_pread(f, 0, at, size, &err) == (int64_t)size, "%s", err.msg);
	*ret_len = size;
	return at;
}

#endif
