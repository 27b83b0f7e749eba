/* Checkpoints of DCP, from tests/data and altered. */
#ifndef SF_TESTS_FORMAT_DCP_WORLD_H
#define SF_TESTS_FORMAT_DCP_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include "ckpt/place.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_lower.h"
#include "format/dcp/dcp_read.h"
#include "format/dcp/dcp_dir.h"
#include "format/format.h"
#include "read/reader.h"
#include "tests/lib/ckpt_find.h"
#include "tests/lib/test_stores.h"
#include "tests/format/dcp_meta_text.h"
#include "tests/lib/sf_test.h"

static inline struct sf_io *io(void)
{
	static struct sf_io the; /* of this test's process */

	if (!the.pool)
		ck_assert_int_eq(sf_io_init(&the, 1, NULL), 0);
	return &the;
}

static inline uint8_t *slurp(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *at;

	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	*ret_len = (size_t)ftell(f);
	rewind(f);
	at = malloc(*ret_len + 1);
	ck_assert_uint_eq(fread(at, 1, *ret_len, f), *ret_len);
	fclose(f);
	return at;
}

/* Loads a store of these objects; returns the code, the message in @msg. */
static inline int load_mem(const struct sf_mem_object *files, size_t n,
                           const struct sf_load_options *opt, struct sf_ckpt **ret,
                           char msg[SF_ERROR_MAX])
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	int r;

	ck_assert_int_eq(sf_store_mem(io(), files, n, &store, NULL), 0);
	r = sf_ckpt_load(store, opt, ret, &err);
	memcpy(msg, err.msg, SF_ERROR_MAX);
	sf_store_free(store);
	return r;
}

/* The metadata of a small case with one text put in another's place; their lengths are equal. */
static inline uint8_t *patched(const char *below, const char *old, const char *new, size_t *ret_len)
{
	char path[4096];
	uint8_t *at = slurp(sf_test_data(path, below), ret_len), *p;
	int n = 0;

	ck_assert_ptr_nonnull(at);
	ck_assert_uint_eq(strlen(old), strlen(new));
	for (p = at; (p = memmem(p, *ret_len - (size_t)(p - at), old, strlen(old))); n++)
		memcpy(p, new, strlen(new));
	ck_assert_int_gt(n, 0);
	return at;
}

static inline bool warned(const struct sf_ckpt *ckpt, const char *code, const char *text)
{
	for (uint32_t i = 0; i < ckpt->nwarnings; i++)
		if (strcmp(ckpt->warning[i].code, code) == 0 && strstr(ckpt->warning[i].text, text))
			return true;
	return false;
}

/* The files of a case as objects in memory, their names behind @prefix; at most @max. */
static inline size_t objects_of(const char *below, const char *prefix, struct sf_mem_object *ret,
                                size_t max)
{
	char path[4096], file[8192], name[512];
	DIR *d = opendir(sf_test_data(path, below));
	struct dirent *e;
	size_t n = 0;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		size_t len;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		ck_assert_uint_lt(n, max);
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		snprintf(name, sizeof(name), "%s%s", prefix, e->d_name);
		ret[n].name = strdup(name);
		ret[n].at = slurp(file, &len);
		ck_assert_ptr_nonnull(ret[n].at);
		ret[n++].len = len;
	}
	closedir(d);
	return n;
}
static inline void free_objects(struct sf_mem_object *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((void *)(uintptr_t)files[i].name);
		free((void *)(uintptr_t)files[i].at);
	}
}

#endif
