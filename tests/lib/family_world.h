/* A checkpoint of the test data and its expect.json: every tensor's bytes, as the raw view has them. */
#ifndef SF_TESTS_LIB_FAMILY_WORLD_H
#define SF_TESTS_LIB_FAMILY_WORLD_H

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "lib/session.h"
#include "tests/lib/sf_test.h"
#include "view/view.h"

struct family {
	struct sf_session_options opt;
	struct sf_session s;
	struct sf_json *expect;
};

/* Where packed files are unpacked; NULL: the user's cache. Set before family_open. */
static const char *family_cache __attribute__((unused));

/* FOLDER/CASE below tests/data; @below: what is opened of it ("ckpt"). */
static inline void family_open(struct family *f, const char *dir, const char *below)
{
	struct sf_error err = SF_ERROR_INIT;
	char path[4096], text[1 << 16], name[256];

	snprintf(name, sizeof(name), "%s/expect.json", dir);
	FILE *file = fopen(sf_test_data(path, name), "rb");
	ck_assert_msg(file != NULL, "%s", path);
	size_t n = fread(text, 1, sizeof(text), file);
	fclose(file);
	ck_assert_msg(n < sizeof(text), "%s is too long", path);
	ck_assert_msg(sf_json_parse(text, n, &f->expect, &err) >= 0, "%s: %s", path, err.msg);
	sf_session_options_init(&f->opt);
	f->opt.threads = 2;
	f->opt.store.cache_dir = family_cache;
	snprintf(name, sizeof(name), "%s/%s", dir, below);
	ck_assert_msg(sf_session_open(&f->s, &f->opt, sf_test_data(path, name), &err) >= 0, "%s",
	              err.msg);
}

static inline void family_close(struct family *f)
{
	sf_session_close(&f->s);
	sf_json_free(f->expect);
}

static inline const struct sf_entry *family_find(const struct family *f, const char *key)
{
	const struct sf_catalog *c = f->s.catalog;

	for (uint32_t i = 0; i < c->n; i++)
		if (strcmp(c->entry[i].name, key) == 0)
			return &c->entry[i];
	return NULL;
}

/* The key's dtype, shape and bytes are what @want says. */
static inline void family_check(struct family *f, const char *key, const struct cJSON *want)
{
	const struct sf_entry *e = family_find(f, key);
	struct sf_error err = SF_ERROR_INIT;
	uint64_t shape[SF_DIMS_MAX], size;
	uint8_t digest[SF_SHA256_BYTES], *at;
	char hex[2 * SF_SHA256_BYTES + 1];
	const char *dtype, *sha;
	struct sf_vfile *v;

	ck_assert_msg(e && e->tensor != SF_NONE, "no tensor '%s'", key);
	const struct sf_tensor *t = &f->s.ckpt->tensor[e->tensor];
	int ndim = sf_json_get_u64s(want, "shape", shape, SF_DIMS_MAX, NULL);
	ck_assert_int_ge(sf_json_get_str(want, "dtype", &dtype, NULL), 0);
	ck_assert_int_ge(sf_json_get_str(want, "sha256", &sha, NULL), 0);
	ck_assert_msg(strcmp(sf_dtype_info((enum sf_dtype)e->dtype)->torch, dtype) == 0, "'%s': %s",
	              key, sf_dtype_info((enum sf_dtype)e->dtype)->torch);
	ck_assert_msg(t->ndim == ndim && memcmp(t->shape, shape, (size_t)ndim * 8) == 0,
	              "'%s' has another shape", key);
	ck_assert_int_ge(sf_view_raw(f->s.catalog, f->s.reader, (uint32_t)(e - f->s.catalog->entry),
	                             &v, &err),
	                 0);
	ck_assert_int_ge(sf_vfile_prepare(v, &err), 0);
	ck_assert_int_ge(sf_vfile_size(v, &size), 0);
	at = malloc(size + 1);
	ck_assert_msg(sf_vfile_pread(v, 0, at, size, &err) == (int64_t)size, "'%s': %s", key,
	              err.msg);
	sf_vfile_unref(v);
	ck_assert_int_eq(sf_sha256(at, size, digest), 0);
	free(at);
	for (int i = 0; i < SF_SHA256_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	ck_assert_msg(strcmp(hex, sha) == 0, "'%s' has other bytes", key);
}

/* All tensors of @table under @prefix; objects are there. Returns how many. */
static inline unsigned family_check_all(struct family *f, const char *table, const char *prefix)
{
	const struct cJSON *list, *item;
	char key[1024];
	unsigned n = 0;

	ck_assert_int_ge(sf_json_get_obj(sf_json_root(f->expect), table, &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item), n++) {
		snprintf(key, sizeof(key), "%s%s", prefix, sf_json_name(item));
		family_check(f, key, item);
	}
	return n;
}

static inline unsigned family_check_objects(struct family *f)
{
	const struct cJSON *list, *item;
	unsigned n = 0;

	ck_assert_int_ge(sf_json_get_obj(sf_json_root(f->expect), "objects", &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item), n++) {
		const struct sf_entry *e = family_find(f, sf_json_name(item));
		ck_assert_msg(e && e->object != SF_NONE, "no object '%s'", sf_json_name(item));
	}
	return n;
}

/* The text of the first warning with this code; NULL none. */
static inline const char *family_warning(const struct family *f, const char *code)
{
	for (uint32_t i = 0; i < f->s.ckpt->nwarnings; i++)
		if (strcmp(f->s.ckpt->warning[i].code, code) == 0)
			return f->s.ckpt->warning[i].text;
	return NULL;
}

#endif
