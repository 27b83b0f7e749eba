#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/cache_map.h"
#include "tests/lib/sf_test.h"

static const struct sf_cache_id id = { "s3://bucket/a b", "\"tag\"", 5000000000 };

START_TEST(a_header_says_which_object_it_is_of)
{
	uint8_t head[SF_CACHE_HEAD];
	struct sf_cache_id got;

	ck_assert_int_eq(sf_cache_head_put(&id, head), 0);
	ck_assert_int_eq(sf_cache_head_get(head, &got), 0);
	ck_assert_str_eq(got.url, id.url);
	ck_assert_str_eq(got.version, id.version);
	ck_assert_uint_eq(got.size, id.size);
}
END_TEST

START_TEST(a_header_with_one_bit_changed_is_none)
{
	uint8_t head[SF_CACHE_HEAD];
	struct sf_cache_id got;

	ck_assert_int_eq(sf_cache_head_put(&id, head), 0);
	for (size_t i = 0; i < sizeof(head) * 8; i += i < 1024 ? 1 : 97) {
		head[i / 8] ^= (uint8_t)(1 << i % 8);
		ck_assert_int_eq(sf_cache_head_get(head, &got), -EBADMSG);
		head[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	ck_assert_int_eq(sf_cache_head_get(head, &got), 0);
}
END_TEST

START_TEST(names_tell_objects_versions_and_sizes_apart)
{
	const struct sf_cache_id ids[] = {
		id,
		{ "s3://bucket/a b", "\"tag2\"", 5000000000 },
		{ "s3://bucket/a b", "\"tag\"", 5000000001 },
		{ "s3://bucket/a b\"", "tag\"", 5000000000 },
		{ "s3://bucket/a", " b\"tag\"", 5000000000 },
	};
	char name[SF_ARRAY_LEN(ids)][SF_CACHE_NAME + 1];

	for (size_t i = 0; i < SF_ARRAY_LEN(ids); i++) {
		ck_assert_int_eq(sf_cache_name(&ids[i], name[i]), 0);
		ck_assert_uint_eq(strspn(name[i], "0123456789abcdef"), SF_CACHE_NAME);
		for (size_t k = 0; k < i; k++)
			ck_assert_str_ne(name[i], name[k]);
	}
}
END_TEST

START_TEST(long_words_have_no_header)
{
	static char url[SF_CACHE_ID_MAX + 1];
	uint8_t head[SF_CACHE_HEAD];
	char name[SF_CACHE_NAME + 1];
	struct sf_cache_id got, want = { url, "", 1 };

	memset(url, 'u', SF_CACHE_ID_MAX);
	ck_assert_int_eq(sf_cache_head_put(&want, head), 0);
	ck_assert_int_eq(sf_cache_head_get(head, &got), 0);
	ck_assert_str_eq(got.url, url);
	want.version = "v";
	ck_assert_int_eq(sf_cache_head_put(&want, head), -E2BIG);
	ck_assert_int_eq(sf_cache_name(&want, name), -E2BIG);
}
END_TEST

START_TEST(what_has_no_sure_version_is_not_kept)
{
	static const struct {
		uint64_t size;
		struct sf_version v;
		const char *text;
	} of[] = {
		{ 1, { .etag = "\"a\"" }, "\"a\"" },
		{ 1, { .mtime_ns = 16 }, "0-0-10" },
		{ 1, { .dev = 1, .ino = 2, .mtime_ns = 3 }, "1-2-3" },
		{ SF_CACHE_OBJECT_MAX, { .etag = "x" }, "x" },
		/* dates: 784111777 s, and a little later */
		{ 1, { .etag = "Sun, 06 Nov 1994 08:49:37 GMT" }, "Sun, 06 Nov 1994 08:49:37 GMT" },
		{ 1, { .etag = "Sun, 06 Nov 1994 08:49:39 GMT" }, NULL },
		{ 1, { .etag = "Sun, 06 Nov 2094 08:49:39 GMT" }, NULL },
		{ 1, { 0 }, NULL },
		{ 1, { .etag = "" }, NULL },
		{ 1, { .etag = "W/\"a\"" }, NULL },
		{ 0, { .etag = "x" }, NULL },
		{ SF_CACHE_OBJECT_MAX + 1, { .etag = "x" }, NULL },
		{ UINT64_MAX, { .etag = "x" }, NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(of); i++) {
		char *text = NULL;
		int r = sf_cache_version(of[i].size, &of[i].v, 784111777 + 61, &text);
		ck_assert_int_eq(r, of[i].text != NULL);
		if (text)
			ck_assert_str_eq(text, of[i].text);
		free(text);
	}
}
END_TEST

START_TEST(sums_know_block_and_object)
{
	char a[SF_CACHE_NAME + 1], b[SF_CACHE_NAME + 1];
	uint8_t mark[SF_CACHE_MARK], bytes[100] = { 1, 2, 3 };
	uint32_t sum, got;

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	sum = sf_cache_sum(a, 7, bytes, sizeof(bytes));
	ck_assert_uint_ne(sum, sf_cache_sum(a, 8, bytes, sizeof(bytes)));
	ck_assert_uint_ne(sum, sf_cache_sum(b, 7, bytes, sizeof(bytes)));
	sf_cache_mark_put(sum, mark);
	ck_assert(sf_cache_mark_get(mark, &got));
	ck_assert_uint_eq(sum, got);
	for (unsigned i = 0; i < 64; i++) {
		mark[i / 8] ^= (uint8_t)(1 << i % 8);
		ck_assert(!sf_cache_mark_get(mark, &got) || got != sum);
		mark[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	memset(mark, 0, sizeof(mark));
	ck_assert(!sf_cache_mark_get(mark, &got)); /* a hole */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_map");
	TCase *t = tcase_create("cache_map");

	tcase_add_test(t, a_header_says_which_object_it_is_of);
	tcase_add_test(t, a_header_with_one_bit_changed_is_none);
	tcase_add_test(t, names_tell_objects_versions_and_sizes_apart);
	tcase_add_test(t, long_words_have_no_header);
	tcase_add_test(t, what_has_no_sure_version_is_not_kept);
	tcase_add_test(t, sums_know_block_and_object);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
