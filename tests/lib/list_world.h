/* Pages of a bucket's listing: what a test takes of them. */
#ifndef SF_TESTS_LIB_LIST_WORLD_H
#define SF_TESTS_LIB_LIST_WORLD_H

#include <string.h>

#include "base/buf.h"
#include "store/bucket_list.h"
#include "tests/lib/sf_test.h"

/* "key=size@etag;" of objects, "[prefix/]": of the last page */
static struct sf_buf told;

static int tell(void *arg, const struct sf_bucket_entry *e)
{
	(void)arg;
	ck_assert_uint_eq(strlen(e->key), e->key_len);
	if (e->is_prefix)
		sf_buf_printf(&told, "[%s]", e->key);
	else
		sf_buf_printf(&told, "%s=%llu%s%s;", e->key, (unsigned long long)e->size,
		              e->etag ? "@" : "", e->etag ? e->etag : "");
	return 0;
}

typedef int list_take(struct sf_bucket_pager *p, const char *doc, size_t len, sf_bucket_each *each,
                      void *arg, struct sf_error *err);

static int take_by(list_take *by, struct sf_bucket_pager *p, const char *doc, struct sf_error *err)
{
	err->msg[0] = '\0';
	sf_buf_reset(&told);
	int r = by(p, doc, strlen(doc), tell, NULL, err);
	ck_assert_int_eq(r < 0, err->msg[0] != '\0');
	return r;
}

/* The last of these pages (up to @n; NULL: fewer) was there before. */
static inline void ck_repeats(list_take *by, const char *const *page, size_t n)
{
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_error err;
	int r = 1;

	for (size_t k = 0; k < n && page[k]; k++) {
		ck_assert_int_eq(r, 1);
		r = take_by(by, &p, page[k], &err);
	}
	ck_assert_int_eq(r, -EBADMSG);
	ck_assert_msg(strstr(err.msg, "repeats itself") != NULL, "%s", err.msg);
	sf_bucket_pager_release(&p);
}

#endif
