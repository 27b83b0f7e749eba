/* Loads checkpoints for tests: of the test data, of a directory, of objects in memory. */
#ifndef SF_TESTS_LIB_LOAD_H
#define SF_TESTS_LIB_LOAD_H

#include <string.h>

#include "base/mem.h"
#include "format/format.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

static inline struct sf_io *load_io(void)
{
	static struct sf_io the; /* of this test's process */

	if (!the.pool)
		ck_assert_int_eq(sf_io_init(&the, 1, NULL), 0);
	return &the;
}

/* The code of a load; the message in @msg. *ret is the caller's to free when it is 0. */
static inline int load_store(struct sf_store *store, const struct sf_load_options *opt,
                             struct sf_ckpt **ret, char msg[SF_ERROR_MAX])
{
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_ckpt_load(store, opt, ret, &err);

	ck_assert_msg((r < 0) == (err.msg[0] != '\0'), "%d with the message '%s'", r, err.msg);
	memcpy(msg, err.msg, SF_ERROR_MAX);
	sf_store_free(store);
	return r;
}

static inline int load_mem(const struct sf_mem_object *files, size_t n,
                           const struct sf_load_options *opt, struct sf_ckpt **ret,
                           char msg[SF_ERROR_MAX])
{
	struct sf_store *store;

	ck_assert_int_eq(sf_store_mem(load_io(), files, n, &store, NULL), 0);
	return load_store(store, opt, ret, msg);
}

/* A directory below tests/data. */
static inline int load_data(const char *below, const struct sf_load_options *opt,
                            struct sf_ckpt **ret, char msg[SF_ERROR_MAX])
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	char path[4096];
	int r = sf_store_open(load_io(), sf_test_data(path, below), NULL, &store, &err);

	ck_assert_msg(r >= 0, "%s", err.msg);
	return load_store(store, opt, ret, msg);
}

/* The same, whole: a failure is the test's. */
static inline struct sf_ckpt *load_good(const char *below)
{
	char msg[SF_ERROR_MAX];
	struct sf_ckpt *ckpt = NULL;
	int r = load_data(below, NULL, &ckpt, msg);

	ck_assert_msg(r == 0, "%s: %s", below, msg);
	return ckpt;
}

/* The text of the first warning with this code that has @text in it, NULL none. */
static inline const char *load_warning(const struct sf_ckpt *ckpt, const char *code,
                                       const char *text)
{
	for (uint32_t i = 0; i < ckpt->nwarnings; i++)
		if (strcmp(ckpt->warning[i].code, code) == 0 && strstr(ckpt->warning[i].text, text))
			return ckpt->warning[i].text;
	return NULL;
}

static inline const struct sf_group *load_group(const struct sf_ckpt *ckpt, const char *name)
{
	for (uint32_t i = 0; i < ckpt->ngroups; i++)
		if (strcmp(ckpt->group[i].name, name) == 0)
			return &ckpt->group[i];
	ck_abort_msg("no group '%s'", name);
	return NULL;
}

#endif
