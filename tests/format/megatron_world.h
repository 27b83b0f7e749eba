/* Megatron's checkpoints in tests: of the test data, held against what was saved; altered ones in
 * memory. */
#ifndef SF_TESTS_FORMAT_MEGATRON_WORLD_H
#define SF_TESTS_FORMAT_MEGATRON_WORLD_H

#include <ftw.h>
#include <inttypes.h>

#include "base/json.h"
#include "base/path.h"
#include "lib/session.h"
#include "tests/lib/load.h"

/* A session over tests/data/@below. */
static inline void mg_open(struct sf_session *s, const char *below)
{
	static struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	sf_session_options_init(&opt);
	opt.threads = 2;
	ck_assert_msg(sf_session_open(s, &opt, sf_test_data(path, below), &err) >= 0, "%s",
	              err.msg);
}

static inline uint32_t mg_entry(const struct sf_session *s, const char *key)
{
	for (uint32_t i = 0; i < s->catalog->n; i++)
		if (strcmp(s->catalog->entry[i].name, key) == 0)
			return i;
	ck_abort_msg("no key '%s'", key);
	return 0;
}

/* All of a virtual file; a NUL behind. */
static inline uint8_t *mg_read(struct sf_vfile *f, uint64_t *ret_len)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size = 0;

	ck_assert_msg(sf_vfile_prepare(f, &err) >= 0, "%s", err.msg);
	ck_assert_int_ge(sf_vfile_size(f, &size), 0);
	uint8_t *at = calloc(size + 1, 1);
	ck_assert_msg(sf_vfile_pread(f, 0, at, size, &err) == (int64_t)size, "%s", err.msg);
	*ret_len = size;
	sf_vfile_unref(f);
	return at;
}

/* value.json of an object. */
static inline char *mg_value(struct sf_session *s, const char *key)
{
	struct sf_vfile *f;
	uint64_t len;

	ck_assert_int_ge(sf_view_value_json(s->catalog, s->reader, mg_entry(s, key), &f, NULL), 0);
	return (char *)mg_read(f, &len);
}

static inline void mg_check_value(struct sf_session *s, const char *key, const char *want)
{
	char *json = mg_value(s, key);

	ck_assert_str_eq(json, want);
	free(json);
}

/* The tensor has this dtype, shape and these bytes. */
static inline void mg_check_tensor(struct sf_session *s, const char *key, const struct cJSON *want)
{
	const uint32_t e = mg_entry(s, key);
	const struct sf_entry *entry = &s->catalog->entry[e];
	const struct sf_tensor *t;
	const char *dtype, *sha;
	uint64_t shape[SF_DIMS_MAX], len;
	uint8_t digest[SF_SHA256_BYTES];
	char hex[2 * SF_SHA256_BYTES + 1];
	int n = sf_json_get_u64s(want, "shape", shape, SF_DIMS_MAX, NULL);
	struct sf_vfile *f;

	ck_assert_msg(entry->tensor != SF_NONE, "%s is no tensor", key);
	t = &s->ckpt->tensor[entry->tensor];
	ck_assert_int_ge(sf_json_get_str(want, "dtype", &dtype, NULL), 0);
	ck_assert_int_ge(sf_json_get_str(want, "sha256", &sha, NULL), 0);
	ck_assert_str_eq(sf_dtype_info((enum sf_dtype)t->dtype)->torch, dtype);
	ck_assert_msg(t->ndim == n, "%s has %u dimensions, not %d", key, t->ndim, n);
	for (int d = 0; d < n; d++)
		ck_assert_uint_eq(t->shape[d], shape[d]);
	ck_assert_int_ge(sf_view_raw(s->catalog, s->reader, e, &f, NULL), 0);
	uint8_t *at = mg_read(f, &len);
	sf_sha256(at, len, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	ck_assert_msg(strcmp(hex, sha) == 0, "%s has other bytes", key);
	free(at);
}

static inline char *mg_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text;
	long len;

	ck_assert_msg(f != NULL, "%s", path);
	fseek(f, 0, SEEK_END);
	len = ftell(f);
	rewind(f);
	text = calloc((size_t)len + 1, 1);
	ck_assert_uint_eq(fread(text, 1, (size_t)len, f), (size_t)len);
	fclose(f);
	return text;
}

/* Every tensor of expect.json in @dir, and its objects by name; returns how many tensors. */
static inline unsigned mg_check_case(struct sf_session *s, const char *dir)
{
	struct sf_json *json = NULL;
	const struct cJSON *list, *item;
	char below[256], path[4096];
	unsigned n = 0;

	snprintf(below, sizeof(below), "%s/expect.json", dir);
	char *text = mg_text(sf_test_data(path, below));
	ck_assert_int_ge(sf_json_parse(text, strlen(text), &json, NULL), 0);
	ck_assert_int_ge(sf_json_get_obj(sf_json_root(json), "tensors", &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item), n++)
		mg_check_tensor(s, sf_json_name(item), item);
	ck_assert_int_ge(sf_json_get_obj(sf_json_root(json), "objects", &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item))
		ck_assert_uint_ne(s->catalog->entry[mg_entry(s, sf_json_name(item))].object,
		                  SF_NONE);
	sf_json_free(json);
	free(text);
	return n;
}

/* ---- a directory's files in memory ---- */

#define MG_FILES 256
struct mg_files {
	struct sf_mem_object at[MG_FILES];
	size_t n;
};

static struct mg_files *mg_now;
static size_t mg_front;

static inline int mg_take(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct sf_mem_object *o = &mg_now->at[mg_now->n];

	(void)ftw;
	if (type != FTW_F)
		return 0;
	ck_assert_uint_lt(mg_now->n, MG_FILES);
	o->name = strdup(path + mg_front);
	o->at = mg_text(path);
	o->len = (uint64_t)st->st_size;
	mg_now->n++;
	return 0;
}

static inline void mg_load_files(struct mg_files *f, const char *below)
{
	char path[4096];

	f->n = 0;
	mg_now = f;
	mg_front = strlen(sf_test_data(path, below)) + 1;
	ck_assert_int_eq(nftw(path, mg_take, 8, FTW_PHYS), 0);
	ck_assert_uint_gt(f->n, 0);
}

static inline struct sf_mem_object *mg_file(struct mg_files *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->at[i].name, name) == 0)
			return &f->at[i];
	ck_abort_msg("no file '%s'", name);
	return NULL;
}

static inline void mg_remove(struct mg_files *f, const char *name)
{
	struct sf_mem_object *o = mg_file(f, name);

	free((void *)(uintptr_t)o->name);
	free((void *)(uintptr_t)o->at);
	*o = f->at[--f->n];
}

static inline void mg_set(struct mg_files *f, const char *name, const void *at, size_t len)
{
	struct sf_mem_object *o = &f->at[f->n];

	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->at[i].name, name) == 0)
			o = &f->at[i];
	if (o == &f->at[f->n]) {
		ck_assert_uint_lt(f->n++, MG_FILES);
		o->name = strdup(name);
	} else {
		free((void *)(uintptr_t)o->at);
	}
	uint8_t *copy = malloc(len + 1);
	memcpy(copy, at, len);
	o->at = copy;
	o->len = len;
}

static inline void mg_release(struct mg_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free((void *)(uintptr_t)f->at[i].name);
		free((void *)(uintptr_t)f->at[i].at);
	}
	f->n = 0;
}

static inline struct sf_ckpt *mg_load(struct mg_files *f, const struct sf_load_options *opt)
{
	struct sf_ckpt *ckpt = NULL;
	char msg[SF_ERROR_MAX];
	int r = load_mem(f->at, f->n, opt, &ckpt, msg);

	ck_assert_msg(r == 0, "%s", msg);
	return ckpt;
}

static inline void mg_refused(struct mg_files *f, const struct sf_load_options *opt, int code,
                              const char *words)
{
	struct sf_ckpt *ckpt = NULL;
	char msg[SF_ERROR_MAX];
	int r = load_mem(f->at, f->n, opt, &ckpt, msg);

	ck_assert_msg(r == code && strstr(msg, words), "%d %s\nnot: %s", r, msg, words);
}

#endif
