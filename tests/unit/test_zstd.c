#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/zstd.h"
#include "tests/lib/sf_test.h"

/* printf 'hello hello hello hello\n' | zstd, with a checksum */
static const uint8_t hello[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x6d, 0x00, 0x00,
	                         0x38, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x20, 0x0a, 0x01,
	                         0x00, 0x99, 0x4b, 0x11, 0xa8, 0x7c, 0x2e, 0xa8 };
static const char text[] = "hello hello hello hello\n";

/* That twice in a row, through zstd again; and 30,000 frames with nothing in them. */
static const uint8_t twice[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x34, 0x05, 0x01, 0x00,
	                         0xd0, 0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x6d, 0x00,
	                         0x00, 0x38, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x20, 0x0a,
	                         0x01, 0x00, 0x99, 0x4b, 0x11, 0xa8, 0x7c, 0x2e, 0xa8,
	                         0x01, 0x00, 0xb6, 0x3d, 0xc7, 0xac, 0x19, 0xc7, 0x52 },
		     nothing[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xa4, 0xb0, 0x1e, 0x04, 0x00, 0x8c,
	                           0x00, 0x00, 0x48, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01,
	                           0x00, 0x00, 0x01, 0x00, 0xf4, 0xff, 0xcc, 0xcb, 0x11, 0x4c,
	                           0x00, 0x00, 0x08, 0x00, 0x01, 0x00, 0xfc, 0xff, 0x39, 0x10,
	                           0x02, 0x45, 0x00, 0x00, 0x08, 0xb5, 0x01, 0x00, 0xac, 0xde,
	                           0x03, 0x21, 0xb1, 0x5d, 0x7c, 0x17 };

static struct sf_unzstd *decoder(void)
{
	struct sf_unzstd *z = NULL;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_unzstd_new(&z, &err) == 0, "%s", err.msg);
	return z;
}

/* Fed in pieces of 1 … n bytes, twice in a row: two frames are one stream. */
START_TEST(frames_come_out_whole_however_they_are_cut)
{
	for (size_t step = 1; step <= sizeof(hello); step++) {
		struct sf_unzstd *z = decoder();
		struct sf_buf out = { .limit = 2 * (sizeof(text) - 1) }; /* just enough */
		struct sf_error err = SF_ERROR_INIT;
		for (int frame = 0; frame < 2; frame++)
			for (size_t at = 0; at < sizeof(hello); at += step)
				ck_assert_msg(sf_unzstd_feed(z, hello + at,
				                             SF_MIN(step, sizeof(hello) - at), &out,
				                             &err) == 0,
				              "%s", err.msg);
		ck_assert_int_eq(sf_unzstd_end(z, &err), 0);
		ck_assert_uint_eq(out.len, 2 * (sizeof(text) - 1));
		ck_assert_mem_eq(out.at, text, sizeof(text) - 1);
		ck_assert_mem_eq(out.at + sizeof(text) - 1, text, sizeof(text) - 1);
		sf_buf_release(&out);
		sf_unzstd_free(z);
	}
}
END_TEST

START_TEST(a_cut_frame_is_told_at_its_end)
{
	for (size_t len = 1; len < sizeof(hello); len++) {
		struct sf_unzstd *z = decoder();
		struct sf_buf out = { .limit = 1000 };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_unzstd_feed(z, hello, len, &out, &err), 0);
		ck_assert_int_eq(sf_unzstd_end(z, &err), -EBADMSG);
		ck_assert_str_ne(err.msg, "");
		sf_buf_release(&out);
		sf_unzstd_free(z);
	}
}
END_TEST

START_TEST(a_flipped_bit_is_an_error_or_the_checksum_is_no_use)
{
	for (size_t bit = 0; bit < sizeof(hello) * 8; bit++) {
		struct sf_unzstd *z = decoder();
		struct sf_buf out = { .limit = 1000 };
		uint8_t broken[sizeof(hello)];
		struct sf_error err = SF_ERROR_INIT;
		int r;
		memcpy(broken, hello, sizeof(hello));
		broken[bit / 8] ^= (uint8_t)(1 << bit % 8);
		r = sf_unzstd_feed(z, broken, sizeof(broken), &out, &err);
		if (r == 0)
			r = sf_unzstd_end(z, &err);
		/* bit 2 of the frame's flags is the checksum's own: without it 4 bytes are left
		 * over */
		ck_assert_msg(r < 0 || (out.len == sizeof(text) - 1 &&
		                        memcmp(out.at, text, out.len) == 0),
		              "bit %zu", bit);
		if (r < 0) /* and stays so */
			ck_assert_int_lt(sf_unzstd_feed(z, hello, sizeof(hello), &out, NULL), 0);
		sf_buf_release(&out);
		sf_unzstd_free(z);
	}
}
END_TEST

START_TEST(output_past_the_limit_is_refused)
{
	for (size_t limit = 1; limit < sizeof(text) - 1; limit++) {
		struct sf_unzstd *z = decoder();
		struct sf_buf out = { .limit = limit };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_unzstd_feed(z, hello, sizeof(hello), &out, &err), -E2BIG);
		ck_assert_uint_le(out.len, limit);
		sf_buf_release(&out);
		sf_unzstd_free(z);
	}
}
END_TEST

START_TEST(a_stream_in_a_stream_comes_out_whole)
{
	for (size_t step = 1; step <= sizeof(twice); step++) {
		struct sf_unzstd *z = NULL;
		struct sf_buf out = { .limit = 2 * (sizeof(text) - 1) };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_unzstd_chain(2, &z, &err), 0);
		for (size_t at = 0; at < sizeof(twice); at += step)
			ck_assert_msg(sf_unzstd_feed(z, twice + at,
			                             SF_MIN(step, sizeof(twice) - at), &out,
			                             &err) == 0,
			              "%s", err.msg);
		ck_assert_int_eq(sf_unzstd_end(z, &err), 0);
		ck_assert_uint_eq(out.len, 2 * (sizeof(text) - 1));
		ck_assert_mem_eq(out.at + sizeof(text) - 1, text, sizeof(text) - 1);
		sf_buf_release(&out);
		sf_unzstd_free(z);
	}
	for (size_t len = 1; len < sizeof(twice); len++) {
		struct sf_unzstd *z = NULL;
		struct sf_buf out = { .limit = 1000 };
		ck_assert_int_eq(sf_unzstd_chain(2, &z, NULL), 0);
		ck_assert(sf_unzstd_feed(z, twice, len, &out, NULL) < 0 ||
		          sf_unzstd_end(z, NULL) == -EBADMSG);
		sf_buf_release(&out);
		sf_unzstd_free(z);
	}
}
END_TEST

START_TEST(what_is_between_streams_has_a_limit_too)
{
	struct sf_unzstd *z = NULL;
	struct sf_buf out = { .limit = 20 };
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_unzstd_chain(2, &z, &err), 0);
	ck_assert_int_eq(sf_unzstd_feed(z, twice, sizeof(twice), &out, &err), -E2BIG);
	ck_assert_int_eq(sf_unzstd_feed(z, twice, 1, &out, &err), -E2BIG); /* and stays so */
	sf_buf_release(&out);
	sf_unzstd_free(z);
	out = (struct sf_buf){ .limit = 1000 };
	ck_assert_int_eq(sf_unzstd_chain(2, &z, &err), 0);
	ck_assert_int_eq(sf_unzstd_feed(z, nothing, sizeof(nothing), &out, &err), -E2BIG);
	sf_buf_release(&out);
	sf_unzstd_free(z);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("zstd");
	TCase *t = tcase_create("zstd");
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) == -ENOTSUP)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	tcase_add_test(t, frames_come_out_whole_however_they_are_cut);
	tcase_add_test(t, a_cut_frame_is_told_at_its_end);
	tcase_add_test(t, a_flipped_bit_is_an_error_or_the_checksum_is_no_use);
	tcase_add_test(t, output_past_the_limit_is_refused);
	tcase_add_test(t, a_stream_in_a_stream_comes_out_whole);
	tcase_add_test(t, what_is_between_streams_has_a_limit_too);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
