#include "config.h"

#include "store/cache_drop.h"
#include "tests/lib/cache_world.h"

static struct cache_world w;

/* Reads all of an object of a store that says it is @source of @at. */
static void keep(const char *at, const char *source)
{
	struct sf_far far = { .etag = "one" };
	struct sf_store *mem, *store;
	struct sf_source *src;

	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	free(mem->source);
	mem->source = strdup(source);
	mem->at = (char *)(uintptr_t)at;
	ck_assert_int_eq(sf_store_cached(mem, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	sf_store_free(store);
}

static const char *const sources[][2] = {
	{ NULL, "s3://b/run/one" },     { "http://here", "s3://b/run/one" },
	{ NULL, "s3://b/run/one two" }, { "http://here", "s3://b/run/one two" },
	{ NULL, "s3://b/run/onetwo" },  { NULL, "s3://b/run" },
	{ NULL, "s3://c/run/one" },
};

START_TEST(what_is_of_a_source_goes_and_nothing_else)
{
	static const struct {
		const char *source;
		unsigned n;
	} drops[] = {
		{ "s3://b/run/one", 2 },
		{ "s3://b/run/one/", 2 },
		{ "s3://b/run/one two", 2 },
		{ "s3://b/run/one/a/x", 2 },
		{ "s3://b/run", 6 },
		{ "s3://b", 6 },
		{ "s3://b/ru", 0 },
		{ "two/a", 0 },
		{ "", 0 },
		{ "///", 0 },
		{ "s3://c/run/one", 1 },
		{ NULL, 7 },
	};
	struct sf_cache_dropped d;

	cw_begin(&w, NULL);
	for (size_t i = 0; i < SF_ARRAY_LEN(drops); i++) {
		for (size_t k = 0; k < SF_ARRAY_LEN(sources); k++)
			keep(sources[k][0], sources[k][1]);
		ck_assert_int_eq(sf_cache_drop(w.dir, drops[i].source, &d, NULL), 0);
		ck_assert_msg(d.objects == drops[i].n, "%s: %llu", drops[i].source,
		              (unsigned long long)d.objects);
		ck_assert_int_eq(d.bytes >= d.objects * CW_BYTES, 1);
		ck_assert_int_eq(sf_cache_drop(w.dir, drops[i].source, &d, NULL), 0);
		ck_assert_uint_eq(d.objects, 0);
	}
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(what_is_in_use_is_read_on)
{
	struct sf_cache_dropped d;
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES / 2);
	ck_assert_int_eq(sf_cache_drop(w.dir, NULL, &d, NULL), 0);
	ck_assert_uint_eq(d.objects, 1);
	cw_read(&w, src, 0, CW_BYTES);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_begin(&w, NULL); /* the next process finds nothing */
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_ge(w.far.bytes, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(a_directory_that_is_not_there_or_not_ours)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_cache_dropped d;
	char path[100];

	cw_dir(&w);
	snprintf(path, sizeof(path), "%s/none", w.dir);
	ck_assert_int_eq(sf_cache_drop(path, NULL, &d, &err), 0);
	ck_assert_uint_eq(d.objects, 0);
	ck_assert_int_eq(access(path, F_OK), -1);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chmod(path, 0777), 0);
	ck_assert_int_eq(sf_cache_drop(path, NULL, &d, &err), -EACCES);
	ck_assert_ptr_nonnull(strstr(err.msg, "others can write"));
	cw_remove(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_drop");
	TCase *t = tcase_create("cache_drop");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, what_is_of_a_source_goes_and_nothing_else);
	tcase_add_test(t, what_is_in_use_is_read_on);
	tcase_add_test(t, a_directory_that_is_not_there_or_not_ours);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
