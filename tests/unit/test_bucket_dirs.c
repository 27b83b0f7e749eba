#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/bucket_dirs.h"
#include "tests/lib/sf_test.h"

/* A bucket in memory, whose pages have @page keys each and tell a prefix on every one of them. */
struct bucket {
	struct sf_store s;
	const char *const *key; /* in order */
	size_t n, page;
	unsigned pages, flat;
	struct sf_buf told;
};

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static int page(struct sf_store *store, struct sf_bucket_pager *p, sf_bucket_each *each, void *arg,
                struct sf_error *err)
{
	struct bucket *b = (struct bucket *)store;
	size_t at = p->token ? strtoul(p->token, NULL, 10) : 0, end = SF_MIN(at + b->page, b->n);
	int r = 0;

	(void)err;
	b->pages++;
	b->flat += !p->delimiter;
	for (; at < end && r >= 0; at++) {
		const char *key = b->key[at], *slash;
		struct sf_bucket_entry e = { .key = key, .key_len = strlen(key), .size = 1 };
		char prefix[256];

		if (!begins(key, p->prefix))
			continue;
		slash = p->delimiter ? strchr(key + strlen(p->prefix), '/') : NULL;
		if (slash) {
			snprintf(prefix, sizeof(prefix), "%.*s", (int)(slash - key) + 1, key);
			e = (struct sf_bucket_entry){ .key = prefix,
				                      .key_len = strlen(prefix),
				                      .is_prefix = true };
		}
		r = each(arg, &e);
	}
	free(p->token);
	p->token = NULL;
	if (r < 0 || end == b->n)
		return SF_MIN(r, 0);
	ck_assert_int_gt(asprintf(&p->token, "%zu", end), 0);
	return 1;
}

static bool has(struct sf_store *store, const char *key)
{
	(void)store;
	return strcmp(key, "run/an/object") == 0;
}

static const struct sf_bucket_ops ops = { .page = page, .has = has };

static int tell(void *arg, const struct sf_objinfo *info)
{
	struct bucket *b = arg;

	sf_buf_printf(&b->told, "%s%s ", info->name, info->size == UINT64_MAX ? "/" : "");
	return strcmp(info->name, "skipped") == 0 ? SF_LIST_SKIP : 0;
}

static const char *list(struct bucket *b, const char *dir, unsigned depth)
{
	struct sf_error err = SF_ERROR_INIT;
	int r;

	sf_buf_reset(&b->told);
	b->pages = b->flat = 0;
	r = sf_bucket_list(&b->s, &ops, "run/", dir, depth, tell, b, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	return sf_buf_cstr(&b->told);
}

static const char *const few[] = { "run/a",     "run/b/",    "run/b/1",       "run/b/2",
	                           "run/b/c/3", "run/b/c/4", "run/skipped/5", "run/z" };

START_TEST(directories_are_told_once_and_looked_into_as_deep_as_wanted)
{
	struct bucket b = { .key = few, .n = SF_ARRAY_LEN(few), .s.source = (char *)"s" };

	for (b.page = 1; b.page <= b.n; b.page++) {
		ck_assert_str_eq(list(&b, "", 0), "a b/ skipped/ z ");
		ck_assert_str_eq(list(&b, "", 1), "a b/ skipped/ z b/1 b/2 ");
		ck_assert_str_eq(list(&b, "", 2), "a b/ skipped/ z b/1 b/2 b/c/3 b/c/4 ");
		ck_assert_str_eq(list(&b, "b", 0), "b/1 b/2 b/c/ ");
		ck_assert_uint_eq(b.flat, 0);
	}
	sf_buf_release(&b.told);
}
END_TEST

START_TEST(many_directories_are_one_listing)
{
	static const char *const many[] = { "run/d0/x", "run/d1/x",      "run/d2/x", "run/d3/x",
		                            "run/d4/x", "run/d5/deep/y", "run/d5/x", "run/d6/x",
		                            "run/d7/x", "run/skipped/x", "run/z" };
	struct bucket b = { .key = many, .n = SF_ARRAY_LEN(many), .s.source = (char *)"s" };

	for (b.page = 1; b.page <= b.n; b.page += 3) {
		ck_assert_str_eq(list(&b, "", 1),
		                 "d0/ d1/ d2/ d3/ d4/ d5/ d6/ d7/ skipped/ z d0/x d1/x d2/x d3/x "
		                 "d4/x d5/x d6/x d7/x ");
		ck_assert_uint_gt(b.flat, 0);
		ck_assert_uint_eq(b.flat * 2, b.pages);
	}
	sf_buf_release(&b.told);
}
END_TEST

START_TEST(what_is_not_there_is_said)
{
	struct bucket b = {
		.key = few, .n = SF_ARRAY_LEN(few), .page = 9, .s.source = (char *)"s"
	};
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_bucket_list(&b.s, &ops, "run/", "no", 0, tell, &b, &err), -ENOENT);
	ck_assert_str_eq(err.msg, "'s/no': the bucket has no objects below it");
	ck_assert_int_eq(sf_bucket_list(&b.s, &ops, "run/", "an/object", 0, tell, &b, &err),
	                 -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(err.msg, "is an object"));
	ck_assert_int_eq(sf_bucket_list(&b.s, &ops, "run/", "../x", 0, tell, &b, &err), -EBADMSG);
	sf_buf_release(&b.told);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bucket_dirs");
	TCase *t = tcase_create("list");

	tcase_add_test(t, directories_are_told_once_and_looked_into_as_deep_as_wanted);
	tcase_add_test(t, many_directories_are_one_listing);
	tcase_add_test(t, what_is_not_there_is_said);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
