#include "config.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "tree/tree.h"

static struct sf_counters c;
static const struct sf_budget_stat memory = { .limit = 10 };

START_TEST(the_cache_is_told_of_where_there_is_one)
{
	static const char *const names[] = { "hits",          "hit_bytes",
		                             "misses",        "fetched_requests",
		                             "fetched_bytes", "asked_bytes" };
	const struct cJSON *root, *cache;
	struct sf_json *json;
	char *text;

	c.cached = _i;
	c.cache_hits = 1;
	c.cache_hit_bytes = 2;
	c.cache_misses = 3;
	c.cache_fetched_requests = 4;
	c.cache_fetched_bytes = 5;
	c.cache_asked_bytes = 6;
	ck_assert_int_eq(sf_counters_json(&c, &memory, NULL, &text), 0);
	ck_assert_int_eq(sf_json_parse(text, strlen(text), &json, NULL), 0);
	root = sf_json_root(json);
	ck_assert_int_eq(sf_json_get_obj(root, "cache", &cache, NULL) >= 0, _i);
	for (uint64_t i = 0, v; _i && i < SF_ARRAY_LEN(names); i++) {
		ck_assert_int_eq(sf_json_get_u64(cache, names[i], &v, NULL), 0);
		ck_assert_uint_eq(v, i + 1);
	}
	sf_json_free(json);
	free(text);
	ck_assert_int_eq(sf_counters_prometheus(&c, &memory, NULL, &text), 0);
	ck_assert_int_eq(strstr(text, "\nshardfuse_cache_fetched_bytes_total 5\n") != NULL, _i);
	ck_assert_int_eq(strstr(text, "cache") != NULL, _i);
	free(text);
}
END_TEST

START_TEST(and_so_is_its_disk)
{
	struct sf_cache_state disk = { .dir = "/a\"b", .limit = 1, .kept = 2, .space.free = 3 };
	const struct cJSON *cache;
	struct sf_json *json;
	const char *s;
	char *text;
	uint64_t v;

	c.cached = true;
	if (_i)
		strcpy(disk.why, "full \"of it\"");
	ck_assert_int_eq(sf_counters_json(&c, &memory, &disk, &text), 0);
	ck_assert_int_eq(sf_json_parse(text, strlen(text), &json, NULL), 0);
	ck_assert_int_eq(sf_json_get_obj(sf_json_root(json), "cache", &cache, NULL), 0);
	ck_assert_int_eq(sf_json_get_str(cache, "dir", &s, NULL), 0);
	ck_assert_str_eq(s, disk.dir);
	ck_assert_int_eq(sf_json_get_u64(cache, "kept", &v, NULL), 0);
	ck_assert_uint_eq(v, 2);
	ck_assert_int_eq(sf_json_get_str(cache, "keeps_nothing", &s, NULL) >= 0, _i);
	if (_i)
		ck_assert_str_eq(s, disk.why);
	sf_json_free(json);
	free(text);
	ck_assert_int_eq(sf_counters_prometheus(&c, &memory, &disk, &text), 0);
	ck_assert_ptr_nonnull(strstr(text, _i ? "\nshardfuse_cache_keeps_nothing 1\n"
	                                      : "\nshardfuse_cache_keeps_nothing 0\n"));
	free(text);
}
END_TEST

START_TEST(a_mount_tells_who_it_is)
{
	const struct cJSON *root;
	struct sf_json *json;
	const char *given;
	char *text;
	uint64_t v;

	c.began_ns = 1;
	c.given = "-o \"views=npy\"";
	ck_assert_int_eq(sf_counters_json(&c, &memory, NULL, &text), 0);
	ck_assert_int_eq(sf_json_parse(text, strlen(text), &json, NULL), 0);
	root = sf_json_root(json);
	ck_assert_int_eq(sf_json_get_u64(root, "pid", &v, NULL), 0);
	ck_assert_uint_eq(v, (uint64_t)getpid());
	ck_assert_int_eq(sf_json_get_u64(root, "uptime_s", &v, NULL), 0);
	ck_assert_uint_gt(v, 1000000000); /* since 1970 */
	ck_assert_int_eq(sf_json_get_str(root, "given", &given, NULL), 0);
	ck_assert_str_eq(given, c.given);
	sf_json_free(json);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("counters");
	TCase *t = tcase_create("counters");

	tcase_add_loop_test(t, the_cache_is_told_of_where_there_is_one, 0, 2);
	tcase_add_loop_test(t, and_so_is_its_disk, 0, 2);
	tcase_add_test(t, a_mount_tells_who_it_is);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
