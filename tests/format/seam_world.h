/* A format of the tests' own over files in memory, and every way in which what it says is read
 * back. */
#ifndef SF_TESTS_FORMAT_SEAM_WORLD_H
#define SF_TESTS_FORMAT_SEAM_WORLD_H

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "cli/verify_deep.h"
#include "format/format.h"
#include "parse/safetensors.h"
#include "parse/zip_read.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/test_stores.h"
#include "view/view.h"

#define SEAM_FILES 8

struct seam {
	struct sf_buf data[SEAM_FILES];
	struct sf_mem_object file[SEAM_FILES];
	size_t nfiles;
	struct sf_io io;
	struct sf_session s;
	struct sf_view_options opt;
	unsigned in_hf; /* keys that were found below hf/ */
};

/* What the format under test says: set before seam_open. */
static int (*seam_lower)(struct sf_ckpt_builder *b, struct sf_error *err);

static int seam_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                      struct sf_error *err)
{
	return n > 0 ? 100 : 0;
}

static int seam_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                     const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	struct sf_ckpt_builder *b;
	int r = sf_ckpt_builder_new("seam", store->source, &b, err);

	if (r < 0)
		return r;
	r = sf_ckpt_builder_listing(b, files, n, err);
	if (r >= 0)
		r = seam_lower(b, err);
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

static const struct sf_format seam_format = {
	.name = "seam", .about = "tests", .probe = seam_probe, .load = seam_load
};

/* A stored file of @len bytes. */
static inline void seam_file(struct seam *w, const char *name, const void *at, size_t len)
{
	struct sf_buf *b = &w->data[w->nfiles];

	sf_buf_add(b, at, len);
	w->file[w->nfiles++] = (struct sf_mem_object){ name, b->at, len };
}

struct seam_listing {
	struct sf_objinfo at[SEAM_FILES];
	size_t n;
};
static inline int seam_list(void *arg, const struct sf_objinfo *info)
{
	struct seam_listing *l = arg;

	l->at[l->n++] = *info;
	return 0;
}

/* The load's code, its message in @err. */
static inline int seam_try_open(struct seam *w,
                                int (*lower)(struct sf_ckpt_builder *b, struct sf_error *err),
                                struct sf_error *err)
{
	struct seam_listing l = { .n = 0 };
	struct sf_session *s = &w->s;
	int r;

	seam_lower = lower;
	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	s->io = &w->io;
	ck_assert_int_eq(sf_store_mem(&w->io, w->file, w->nfiles, &s->store, NULL), 0);
	ck_assert_int_eq(s->store->ops->list(s->store, "", 4, seam_list, &l, NULL), 0);
	ck_assert_int_eq(seam_format.probe(s->store, l.at, l.n, NULL), 100);
	r = seam_format.load(s->store, l.at, l.n, NULL, &s->ckpt, err);
	if (r < 0)
		return r;
	sf_view_options_init(&w->opt);
	r = sf_reader_new(s->ckpt, s->store, &s->reader, err);
	if (r >= 0)
		r = sf_catalog_new(s->ckpt, &w->opt, &s->catalog, err);
	return r < 0 ? r : sf_tree_new(s->catalog, s->reader, &s->tree, err);
}

static inline void seam_open(struct seam *w,
                             int (*lower)(struct sf_ckpt_builder *b, struct sf_error *err))
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(seam_try_open(w, lower, &err) >= 0, "%s", err.msg);
}

static inline void seam_close(struct seam *w)
{
	sf_tree_free(w->s.tree);
	sf_catalog_free(w->s.catalog);
	sf_reader_free(w->s.reader);
	sf_ckpt_free(w->s.ckpt);
	sf_store_free(w->s.store);
	sf_io_release(&w->io);
	for (size_t i = 0; i < w->nfiles; i++)
		sf_buf_release(&w->data[i]);
}

static inline uint32_t seam_entry(struct seam *w, const char *key)
{
	for (uint32_t i = 0; i < w->s.catalog->n; i++)
		if (strcmp(w->s.catalog->entry[i].name, key) == 0)
			return i;
	ck_abort_msg("no key '%s'", key);
	return 0;
}

static inline uint8_t *seam_read(struct sf_vfile *f, uint64_t *ret_len)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size = 0;

	ck_assert_msg(sf_vfile_prepare(f, &err) >= 0, "%s", err.msg);
	ck_assert_int_ge(sf_vfile_size(f, &size), 0);
	uint8_t *at = malloc(size + 1);
	ck_assert_msg(sf_vfile_pread(f, 0, at, size, &err) == (int64_t)size, "%s", err.msg);
	*ret_len = size;
	sf_vfile_unref(f);
	return at;
}

/* Of a file with one tensor: its dense bytes, wherever the view has put them. */
static inline void seam_same(uint8_t *file, uint64_t data, uint64_t size, uint64_t len,
                             const void *want, const char *view)
{
	ck_assert_uint_eq(size, len);
	for (uint64_t i = 0; i < size; i++)
		ck_assert_msg(file[data + i] == ((const uint8_t *)want)[i],
		              "%s: byte %llu of %llu is %02x, not %02x", view,
		              (unsigned long long)i, (unsigned long long)size, file[data + i],
		              ((const uint8_t *)want)[i]);
	free(file);
}

/* A .pt file whose first storage is the tensor's dense bytes. Frees @at. */
static inline void seam_same_pt(uint8_t *at, uint64_t size, const void *want, uint64_t len,
                                const char *view)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_zip_dir dir;
	struct sf_zip_end end;
	uint64_t data;

	const size_t tail = SF_MIN(size, (uint64_t)SF_ZIP_TAIL);
	ck_assert_int_eq(sf_zip_find_end(at + size - tail, tail, size, &end, &err), 0);
	ck_assert_int_eq(sf_zip_parse_dir(at + end.dir_off, &end, size, &arena, &dir, &err), 0);
	const struct sf_zip_record *rec = sf_zip_find(&dir, "data/0");
	ck_assert_ptr_nonnull(rec);
	ck_assert_int_eq(sf_zip_local_data(at + rec->header_off, rec->header_off, &data, &err), 0);
	seam_same(at, data, rec->size, len, want, view);
	sf_arena_release(&arena);
}

static inline void seam_check_pt(struct seam *w, uint32_t entry, const void *want, uint64_t len)
{
	struct sf_selection sel = { .entry = &entry, .n = 1 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f;
	uint64_t size;

	ck_assert_msg(sf_view_pt(w->s.catalog, w->s.reader, &sel, &f, &err) >= 0, "%s", err.msg);
	uint8_t *at = seam_read(f, &size);
	seam_same_pt(at, size, want, len, ".pt");
}

/* A safetensors file that has the tensor as @name; NULL: and no other. Frees @at. */
static inline void seam_same_st(uint8_t *at, const char *name, uint32_t name_len, const void *want,
                                uint64_t len, const char *view)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_st_header head;
	uint32_t i = 0;

	ck_assert_int_eq(sf_st_parse(at + 8, sf_le64(at), &arena, &head, &err), 0);
	if (!name)
		ck_assert_uint_eq(head.n, 1);
	while (name && i < head.n &&
	       (head.at[i].name_len != name_len || memcmp(head.at[i].name, name, name_len) != 0))
		i++;
	ck_assert_msg(i < head.n, "%s: no '%s'", view, name ? name : "");
	seam_same(at, head.data_off + head.at[i].begin, head.at[i].end - head.at[i].begin, len,
	          want, view);
	sf_arena_release(&arena);
}

/* Reading the key fails with @code, and the message has every one of the texts (up to a NULL). */
static inline void seam_fails(struct seam *w, const char *key, int code, const char *const *texts)
{
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_entry *e = &w->s.catalog->entry[seam_entry(w, key)];
	uint8_t all[4096];
	int r = sf_read_tensor(w->s.reader, e->tensor, 0, all, w->s.ckpt->tensor[e->tensor].bytes,
	                       &err);

	ck_assert_msg(r == code, "%d: %s", r, err.msg);
	for (; *texts; texts++)
		ck_assert_msg(strstr(err.msg, *texts) != NULL, "'%s' is not in: %s", *texts,
		              err.msg);
}

/* verify --deep: every defect as "CODE KEY: TEXT;". */
static inline void seam_defect(void *arg, uint32_t entry, const char *code, const char *text)
{
	sf_buf_printf(arg, "%s %u: %s;", code, entry, text);
}

static inline void seam_verify(struct seam *w, const char *want)
{
	struct sf_progress progress;
	struct sf_buf said = { 0 };
	struct sf_deep d = { &w->s, &progress, seam_defect, &said, 0, 0, 0, 0 };
	struct sf_error err = SF_ERROR_INIT;

	sf_progress_init(&progress, true);
	ck_assert_msg(sf_verify_deep(&d, &err) >= 0, "%s", err.msg);
	sf_progress_end(&progress);
	if (want)
		ck_assert_msg(strstr(sf_buf_cstr(&said), want) != NULL, "'%s' is not in: %s", want,
		              sf_buf_cstr(&said));
	else
		ck_assert_str_eq(sf_buf_cstr(&said), "");
	sf_buf_release(&said);
}

/* A warning of the load with this code and every text. */
static inline void seam_warns(struct seam *w, const char *code, const char *const *texts)
{
	const struct sf_ckpt *k = w->s.ckpt;

	for (uint32_t i = 0; i < k->nwarnings; i++) {
		bool all = strcmp(k->warning[i].code, code) == 0;
		for (const char *const *t = texts; *t; t++)
			all = all && strstr(k->warning[i].text, *t) != NULL;
		if (all)
			return;
	}
	ck_abort_msg("no warning %s, the first of %u is %s", code, k->nwarnings,
	             k->nwarnings ? k->warning[0].text : "none");
}

#endif
