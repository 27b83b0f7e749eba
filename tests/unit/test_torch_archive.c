#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_skip.h"
#include "value_lines.h"

/* A file of tests/data/torch-save. */
struct file {
	uint8_t *at;
	size_t len;
	uint64_t read; /* bytes, by ranges */
	unsigned reads;
};

static void load(struct file *f, const char *name)
{
	char path[4096], rel[256];
	FILE *in;

	*f = (struct file){ .at = malloc(1 << 20) };
	snprintf(rel, sizeof(rel), "torch-save/%s", name);
	in = fopen(sf_test_data(path, rel), "rb");
	ck_assert_msg(f->at && in, "%s", path);
	f->len = fread(f->at, 1, 1 << 20, in);
	fclose(in);
}

static int read_ranges(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
                       struct sf_error *err)
{
	struct file *f = arg;

	f->reads++;
	for (size_t i = 0; i < n; buf += range[i++].len) {
		ck_assert(range[i].off <= f->len && range[i].len <= f->len - range[i].off);
		memcpy(buf, f->at + range[i].off, range[i].len);
		f->read += range[i].len;
	}
	return 0;
}

static void check_leaves(const struct file *f, const struct sf_torch_archive *a,
                         const struct file *expect)
{
	struct sf_buf out = { 0 };

	value_lines(&out, f->at, a);
	ck_assert_msg(out.len == expect->len && memcmp(out.at, expect->at, expect->len) == 0,
	              "found:\n%s\nexpected:\n%.*s", sf_buf_cstr(&out), (int)expect->len,
	              (const char *)expect->at);
	sf_buf_release(&out);
}

static const struct {
	const char *name;
	enum sf_torch_container container;
	unsigned reads; /* at most, by ranges */
} files[] = {
	{ "zip", SF_TORCH_ZIP, 6 },
	{ "zip_big", SF_TORCH_ZIP, 6 },
	{ "stream", SF_TORCH_STREAM, 7 },
	{ "stream_p4", SF_TORCH_STREAM, 7 },
	{ "stream_views", SF_TORCH_STREAM, 7 },
	{ "tar", SF_TORCH_TAR, 60 },
};

START_TEST(files_of_torch_save_have_the_values_that_were_saved)
{
	struct sf_error err = SF_ERROR_INIT;
	struct file f, expect;
	char name[64];

	snprintf(name, sizeof(name), "%s.pt", files[_i].name);
	load(&f, name);
	snprintf(name, sizeof(name), "%s.leaves", files[_i].name);
	load(&expect, name);
	ck_assert_int_eq(sf_torch_container(f.at, f.len), files[_i].container);
	for (int ranges = 0; ranges < 2; ranges++) {
		const struct sf_torch_input in = { f.len, ranges ? NULL : f.at, read_ranges, &f };
		const struct sf_torch_options opt = { 0 };
		struct sf_arena arena = { 0 };
		struct sf_torch_archive a;
		int r = sf_torch_open(&in, &opt, &arena, &a, &err);

		ck_assert_msg(r == 0, "%d %s", r, err.msg);
		ck_assert_int_eq(a.container, files[_i].container);
		ck_assert_int_eq(a.big_endian, strstr(files[_i].name, "big") != NULL);
		check_leaves(&f, &a, &expect);
		sf_arena_release(&arena);
	}
	ck_assert_uint_le(f.reads, files[_i].reads);
	free(f.at);
	free(expect.at);
}
END_TEST

START_TEST(a_cut_file_is_an_error_and_nothing_outside_of_it_is_read)
{
	struct file f;
	char name[64];

	snprintf(name, sizeof(name), "%s.pt", files[_i].name);
	load(&f, name);
	for (size_t len = 0; len < f.len; len += len < 600 ? 1 : 7) {
		uint8_t *cut = malloc(len ? len : 1); /* of its exact size, for the sanitizer */
		const struct sf_torch_input in = { len, cut, NULL, NULL };
		const struct sf_torch_options opt = { 0 };
		struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_torch_archive a;

		memcpy(cut, f.at, len);
		int r = sf_torch_open(&in, &opt, &arena, &a, &err);
		/* a tar is filled up behind its last byte */
		ck_assert_msg(r < 0 || files[_i].container == SF_TORCH_TAR, "%zu of %zu", len,
		              f.len);
		ck_assert((r < 0) == (err.msg[0] != '\0'));
		for (uint32_t i = 0; r == 0 && i < a.nstorages; i++)
			ck_assert(a.storage[i].off <= len &&
			          a.storage[i].len <= len - a.storage[i].off);
		sf_arena_release(&arena);
		free(cut);
	}
	free(f.at);
}
END_TEST

START_TEST(limits_and_containers_are_the_callers)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct file f;
	char name[64];

	snprintf(name, sizeof(name), "%s.pt", files[_i].name);
	load(&f, name);
	const struct sf_torch_input in = { f.len, NULL, read_ranges, &f };
	struct sf_torch_options opt = { .part_max = 100 };
	ck_assert_int_eq(sf_torch_open(&in, &opt, &arena, &a, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "100") != NULL, "%s", err.msg);
	opt = (struct sf_torch_options){ .containers = ~(1u << files[_i].container) };
	ck_assert_int_eq(sf_torch_open(&in, &opt, &arena, &a, &err), -ENOTSUP);
	f.read = 0;
	opt = (struct sf_torch_options){ .value_only = true };
	ck_assert_int_eq(sf_torch_open(&in, &opt, &arena, &a, &err), 0);
	sf_arena_release(&arena);
	free(f.at);
}
END_TEST

START_TEST(a_storage_that_is_not_what_the_value_says_is_an_error)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct file f;

	load(&f, "stream_views.pt");
	const struct sf_torch_input in = { f.len, f.at, NULL, NULL };
	const struct sf_torch_options opt = { 0 };
	uint8_t *count = f.at + f.len - 7 * 4 - 8;
	ck_assert_uint_eq(sf_le64(count), 7);
	count[0] = 6;
	ck_assert_int_eq(sf_torch_open(&in, &opt, &arena, &a, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "6 elements, the value says 7") != NULL, "%s", err.msg);
	sf_arena_release(&arena);
	free(f.at);
}
END_TEST

START_TEST(a_pickle_is_as_long_as_its_opcodes_say)
{
	static const struct {
		const char *at;
		size_t len, used;
		int r;
	} cases[] = {
		{ "\x80\x02K\x05.rest", 9, 5, 0 },
		{ "N.", 2, 2, 0 },
		{ "cmod\nname\n.", 11, 11, 0 },
		{ "X\3\0\0\0a.b.", 9, 9, 0 },
		{ "\x8a\2..N.", 6, 6, 0 },
		{ "I12\n.", 5, 5, 0 },
		{ "", 0, 0, -EAGAIN },
		{ "K", 1, 0, -EAGAIN },
		{ "X\3\0\0\0a.", 7, 0, -EAGAIN },
		{ "X\3\0", 3, 0, -EAGAIN },
		{ "cmod\nname", 9, 0, -EAGAIN },
		{ "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", 10, 0, -EAGAIN },
		{ "N\xff.", 3, 0, -EBADMSG },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct sf_error err = SF_ERROR_INIT;
		size_t used = 0;
		ck_assert_int_eq(
			sf_pickle_skip((const uint8_t *)cases[i].at, cases[i].len, &used, &err),
			cases[i].r);
		ck_assert_uint_eq(used, cases[i].used);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("torch_archive");
	TCase *t = tcase_create("torch_archive");
	int n = SF_ARRAY_LEN(files);

	tcase_add_loop_test(t, files_of_torch_save_have_the_values_that_were_saved, 0, n);
	tcase_add_loop_test(t, a_cut_file_is_an_error_and_nothing_outside_of_it_is_read, 0, n);
	tcase_add_loop_test(t, limits_and_containers_are_the_callers, 0, n);
	tcase_add_test(t, a_storage_that_is_not_what_the_value_says_is_an_error);
	tcase_add_test(t, a_pickle_is_as_long_as_its_opcodes_say);
	suite_add_tcase(suite, t);
	return sf_test_main(suite);
}
