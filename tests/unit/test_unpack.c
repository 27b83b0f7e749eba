#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "parse/unpack.h"
#include "parse/xxh32.h"
#include "tests/lib/sf_test.h"

/* The corpus of fuzz_unpack: what gzip, bzip2, xz, zstd and lz4 made of one text. */

static const struct {
	const char *file;
	enum sf_packing packing;
	size_t front; /* bytes that another stream has in front of the text: 50 of it, or random ones */
} files[] = {
	{ "gzip", SF_PACKING_GZIP, 0 },        { "gzip2", SF_PACKING_GZIP, 50 },
	{ "bzip2", SF_PACKING_BZIP2, 0 },      { "xz", SF_PACKING_XZ, 0 },
	{ "lzma", SF_PACKING_LZMA, 0 },        { "zstd", SF_PACKING_ZSTD, 0 },
	{ "lz4", SF_PACKING_LZ4, 0 },          { "lz4-linked", SF_PACKING_LZ4, 0 },
	{ "lz4-stored", SF_PACKING_LZ4, 300 },
};

static uint8_t at[4096], text[3 * 856];

static size_t load(const char *name)
{
	char path[4096], rel[128];

	snprintf(rel, sizeof(rel), "../fuzz/corpus/unpack/%s", name);
	FILE *f = fopen(sf_test_data(path, rel), "rb");
	ck_assert_msg(f != NULL, "%s", path);
	ck_assert_int_eq(fgetc(f), 40); /* the fuzzer's own */
	size_t n = fread(at, 1, sizeof(at), f);
	fclose(f);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 856 < 600 ? (uint8_t) "shardfuse "[i % 856 % 10]
		                        : (uint8_t)(i % 856 - 600);
	return n;
}

/* 1: it is not built in. */
static int unpack(enum sf_packing packing, const uint8_t *p, size_t len, size_t in_step,
                  size_t out_step, struct sf_buf *to, struct sf_error *err)
{
	struct sf_unpacker *u;
	uint8_t out[4096];
	int r = sf_unpacker_new(packing, &u, err);

	if (r == -ENOTSUP)
		return 1;
	ck_assert_int_eq(r, 0);
	for (size_t i = 0; i < len && r >= 0; i += in_step) {
		const uint8_t *in = p + i;
		size_t left = SF_MIN(in_step, len - i), n;
		do {
			r = sf_unpacker_step(u, &in, &left, out, out_step, &n, err);
			if (r >= 0)
				sf_buf_add(to, out, n);
		} while (r >= 0 && (left || n == out_step));
	}
	if (r >= 0)
		r = sf_unpacker_end(u, err);
	sf_unpacker_free(u);
	return r;
}

START_TEST(the_text_comes_out_whatever_the_pieces_are)
{
	static const size_t step[] = { 1, 7, 500, 4096 };
	const size_t n = load(files[_i].file);

	ck_assert_int_eq(sf_packing_of(at, n), files[_i].packing);
	for (size_t i = 0; i < 16; i++) {
		SF_CLEANUP(sf_buf_release) struct sf_buf out = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		int r = unpack(files[_i].packing, at, n, step[i / 4], step[i % 4], &out, &err);
		if (r == 1)
			return;
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_uint_eq(out.len, files[_i].front + sizeof(text));
		ck_assert_int_eq(memcmp(out.at + files[_i].front, text, sizeof(text)), 0);
	}
}
END_TEST

START_TEST(what_is_cut_is_told)
{
	const size_t n = load(files[_i].file);

	for (size_t len = 0; len < n; len += 1 + len / 3) {
		SF_CLEANUP(sf_buf_release) struct sf_buf out = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		int r = unpack(files[_i].packing, at, len, 100, 100, &out, &err);
		if (r == 1)
			return;
		if (files[_i].front) /* it may be cut between its streams */
			continue;
		ck_assert_int_eq(r, -EBADMSG);
		ck_assert_msg(strstr(err.msg, len ? "cut" : "empty"), "%zu: %s", len, err.msg);
	}
}
END_TEST

START_TEST(a_damaged_byte_is_told_or_is_none)
{
	const size_t n = load(files[_i].file);

	for (size_t k = 4; k < n; k++) {
		SF_CLEANUP(sf_buf_release) struct sf_buf out = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		at[k] ^= 0x10;
		int r = unpack(files[_i].packing, at, n, 4096, 4096, &out, &err);
		if (r == 1)
			return;
		ck_assert(r < 0 ||
		          (out.len == files[_i].front + sizeof(text) &&
		           memcmp(out.at + files[_i].front, text, sizeof(text)) == 0) ||
		          files[_i].front == 300 || files[_i].packing == SF_PACKING_LZMA);
		ck_assert((r < 0) == (err.msg[0] != '\0'));
		at[k] ^= 0x10;
	}
}
END_TEST

START_TEST(what_is_no_packed_file)
{
	static const char *const none[] = {
		"PK\3\4\0\0\0\0\0\0\0\0\0\0\0",
		"\x80\x02\x8a\x0al\xfc\x9c"
		"F\xf9 j\xa8P\x19.",
		/* headers of safetensors, whose lengths begin as magic numbers do */
		"\x1f\x8b\x08\0\0\0\0\0{\"__met",
		"]\0\0\0\0\0\0\0{\"a\":{\"",
		"BZhello, world!",
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(none); i++)
		ck_assert_int_eq(sf_packing_of((const uint8_t *)none[i], 15), SF_PACKING_NONE);
	ck_assert_int_eq(sf_packing_of((const uint8_t *)"", 0), SF_PACKING_NONE);
}
END_TEST

/* Source: xxHash's own tests: XXH32 of "", "a", "abc" and 62 letters and digits, seed 0. */
START_TEST(xxh32_is_what_others_make_of_it)
{
	static const struct {
		const char *text;
		uint32_t sum;
	} known[] = { { "", 0x02cc5d05 },
		      { "a", 0x550d7456 },
		      { "abc", 0x32d153ff },
		      { "abcdefghijklmnopqrstuvwxyz", 0x63a14d5f } };

	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		for (size_t cut = 0; cut <= strlen(known[i].text); cut++) {
			const uint8_t *p = (const uint8_t *)known[i].text;
			struct sf_xxh32 x;
			sf_xxh32_begin(&x);
			sf_xxh32_add(&x, p, cut);
			sf_xxh32_add(&x, p + cut, strlen(known[i].text) - cut);
			ck_assert_uint_eq(sf_xxh32_end(&x), known[i].sum);
		}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("unpack");
	TCase *tc = tcase_create("unpack");

	tcase_add_loop_test(tc, the_text_comes_out_whatever_the_pieces_are, 0, SF_ARRAY_LEN(files));
	tcase_add_loop_test(tc, what_is_cut_is_told, 0, SF_ARRAY_LEN(files));
	tcase_add_loop_test(tc, a_damaged_byte_is_told_or_is_none, 0, SF_ARRAY_LEN(files));
	tcase_add_test(tc, what_is_no_packed_file);
	tcase_add_test(tc, xxh32_is_what_others_make_of_it);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
