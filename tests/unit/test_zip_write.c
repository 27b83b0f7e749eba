#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/lib/sf_test.h"

/* The slow way: one bit at a time. */
static uint32_t slow_crc(const uint8_t *p, size_t len)
{
	uint32_t c = 0xffffffff;

	for (size_t i = 0; i < len; i++) {
		c ^= p[i];
		for (int b = 0; b < 8; b++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

START_TEST(crc_of_any_cut_is_the_slow_one)
{
	uint64_t seed = sf_test_seed("crc_of_any_cut_is_the_slow_one");
	uint8_t p[3000];

	for (int i = 0; i < 2000; i++) {
		size_t len = sf_test_below(&seed, sizeof(p)), cut = sf_test_below(&seed, len + 1);
		for (size_t k = 0; k < len; k++)
			p[k] = (uint8_t)sf_test_rand(&seed);
		uint32_t a = sf_crc32(0, p, cut), b = sf_crc32(0, p + cut, len - cut),
			 all = slow_crc(p, len);
		ck_assert_uint_eq(sf_crc32(a, p + cut, len - cut), all);
		ck_assert_uint_eq(sf_crc32_combine(a, b, len - cut), all);
	}
	ck_assert_uint_eq(sf_crc32(7, NULL, 0), 7);
	ck_assert_uint_eq(sf_crc32_combine(5, 0, 0), 5);
	/* a length over 2^32: 2^33 zeros behind it, as 2^10 times 2^23 zeros */
	uint8_t *zeros = calloc(1, 1 << 23);
	uint32_t z = sf_crc32(0, zeros, 1 << 23), sum = 0x12345678;
	for (int i = 0; i < 1024; i++)
		sum = sf_crc32_combine(sum, z, 1 << 23);
	uint32_t all = 0;
	for (int i = 0; i < 1024; i++)
		all = sf_crc32_combine(all, z, 1 << 23);
	ck_assert_uint_eq(sf_crc32_combine(0x12345678, all, UINT64_C(1) << 33), sum);
	free(zeros);
}
END_TEST

/* Archives of random names and sizes, offsets below and past 4 GiB: what is written reads back,
 * each data at a multiple of 64. */
START_TEST(directories_read_back_what_was_written)
{
	uint64_t seed = sf_test_seed("directories_read_back_what_was_written");

	for (int round = 0; round < 300; round++) {
		enum { N = 40 };
		static char name[N][300];
		struct sf_zip_entry e[N];
		struct sf_buf head = { 0 }, dir = { 0 };
		struct sf_zip_end end;
		struct sf_zip_dir d;
		struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		size_t n = sf_test_below(&seed, N) + 1;
		uint64_t at = 0, data[N];
		for (size_t i = 0; i < n; i++) {
			int len = snprintf(name[i], sizeof(name[i]), "archive/data/%zu%.*s", i,
			                   (int)sf_test_below(&seed, 200),
			                   "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
			                   "xxxxxxxxxxxxxxxxxxxxx"
			                   "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
			                   "xxxxxxxxxxxxxxxxxxx");
			e[i] = (struct sf_zip_entry){ name[i], (size_t)len, at,
				                      sf_test_rand(&seed) >>
				                              sf_test_below(&seed, 40) >> 20,
				                      (uint32_t)sf_test_rand(&seed) };
			if (i % 7 == 3) /* borders of zip64 */
				e[i].size = UINT32_MAX - 1 + i % 3;
			sf_buf_reset(&head);
			sf_zip_put_header(&head, &e[i]);
			ck_assert_int_eq(sf_buf_check(&head), 0);
			ck_assert_uint_eq(head.len,
			                  sf_zip_header_len(e[i].name_len, at, e[i].size));
			ck_assert_uint_eq((at + head.len) % 64, 0);
			ck_assert_int_eq(sf_zip_local_data(head.at, at, &data[i], &err), 0);
			ck_assert_uint_eq(data[i], at + head.len);
			at += head.len + e[i].size;
		}
		uint64_t dir_off = at;
		for (size_t i = 0; i < n; i++) {
			size_t before = dir.len;
			sf_zip_put_central(&dir, &e[i]);
			ck_assert_uint_eq(
				dir.len - before,
				sf_zip_central_len(e[i].name_len, e[i].header_off, e[i].size));
		}
		size_t dir_len = dir.len;
		sf_zip_put_end(&dir, n, dir_off, dir_len);
		ck_assert_uint_eq(dir.len - dir_len, SF_ZIP_END_LEN);
		/* a tail that begins anywhere before the ends is enough */
		size_t skip = sf_test_below(&seed, dir_len + 1);
		ck_assert_msg(sf_zip_find_end(dir.at + skip, dir.len - skip, dir_off + dir.len,
		                              &end, &err) == 0,
		              "%s", err.msg);
		ck_assert_uint_eq(end.dir_off, dir_off);
		ck_assert_uint_eq(end.dir_len, dir_len);
		ck_assert_uint_eq(end.entries, n);
		ck_assert_msg(sf_zip_parse_dir(dir.at, &end, dir_off + dir.len, &arena, &d, &err) ==
		                      0,
		              "%s", err.msg);
		ck_assert_uint_eq(d.n, n);
		ck_assert_uint_eq(d.prefix_len, 7);
		for (size_t i = 0; i < n; i++) {
			const struct sf_zip_record *r = sf_zip_find(&d, name[i] + 8);
			ck_assert_ptr_eq(r, &d.at[i]);
			ck_assert_uint_eq(r->size, e[i].size);
			ck_assert_uint_eq(r->comp_size, e[i].size);
			ck_assert_uint_eq(r->header_off, e[i].header_off);
			ck_assert_uint_eq(r->crc, e[i].crc);
			ck_assert_uint_eq(r->method, 0);
		}
		ck_assert_ptr_null(sf_zip_find(&d, "data/"));
		ck_assert_ptr_null(sf_zip_find(&d, ""));
		sf_arena_release(&arena);
		sf_buf_release(&head);
		sf_buf_release(&dir);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("zip_write");
	TCase *t = tcase_create("zip_write");

	tcase_add_test(t, crc_of_any_cut_is_the_slow_one);
	tcase_add_test(t, directories_read_back_what_was_written);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
