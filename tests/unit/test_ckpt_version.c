#include "config.h"

#include "tests/lib/builder_world.h"

static void version_of(const char *source, int64_t mtime, struct sf_objinfo f, uint8_t hash[16])
{
	const struct sf_objinfo listed[] = { f, { .name = "other", .size = 5 } };
	struct sf_ckpt_builder *b;

	ck_assert_int_eq(sf_ckpt_builder_new("dcp", source, &b, &err), 0);
	add_place(b, "f");
	ck_assert_int_eq(sf_ckpt_builder_listing(b, listed, 2, &err), 0);
	sf_ckpt_builder_facts(b, "2.14", NULL, 7, 4, mtime);
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_str_eq(ckpt->writer, "2.14");
	ck_assert_ptr_null(ckpt->content_metadata);
	ck_assert_int_eq(ckpt->step, 7);
	memcpy(hash, ckpt->version_hash, 16);
	sf_ckpt_free(ckpt);
}

static void version(const char *source, int64_t mtime, uint64_t size, uint8_t hash[16])
{
	version_of(source, mtime, (struct sf_objinfo){ .name = "f", .size = size }, hash);
}

START_TEST(the_version_hash_changes_with_source_time_and_sizes_only)
{
	uint8_t a[16], b[16];

	version("/x", 1, 2, a);
	version("/x", 1, 2, b);
	ck_assert_mem_eq(a, b, 16);
	version("/y", 1, 2, b);
	ck_assert_mem_ne(a, b, 16);
	version("/x", 2, 2, b);
	ck_assert_mem_ne(a, b, 16);
	version("/x", 1, 3, b);
	ck_assert_mem_ne(a, b, 16);
}
END_TEST

START_TEST(the_version_hash_changes_with_the_version_of_a_file)
{
	const struct sf_version of[] = { { .ino = 1 },        { .ino = 2 },
		                         { .mtime_ns = 1 },   { .mtime_ns = 2 },
		                         { .etag = "\"1\"" }, { .etag = "\"2\"" },
		                         { .etag = "" },      { .dev = 0 } };
	uint8_t hash[SF_ARRAY_LEN(of)][16], b[16];

	for (size_t i = 0; i < SF_ARRAY_LEN(of); i++) {
		version_of("/x", 1, (struct sf_objinfo){ .name = "f", .size = 2, .version = of[i] },
		           hash[i]);
		for (size_t k = 0; k < i; k++)
			ck_assert_msg(memcmp(hash[k], hash[i], 16) != 0, "%zu and %zu", k, i);
	}
	/* another mount of the same disk */
	version_of("/x", 1, (struct sf_objinfo){ .name = "f", .size = 2, .version.dev = 7 }, b);
	ck_assert_mem_eq(hash[SF_ARRAY_LEN(of) - 1], b, 16);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ckpt_version");
	TCase *tc = tcase_create("ckpt_builder");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_version_hash_changes_with_source_time_and_sizes_only);
	tcase_add_test(tc, the_version_hash_changes_with_the_version_of_a_file);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
