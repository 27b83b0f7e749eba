#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/codec.h"
#include "tests/lib/sf_test.h"

/* "hello\n" in one raw block */
static const uint8_t hello[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x31, 0x00,
	                         0x00, 'h',  'e',  'l',  'l',  'o',  '\n' };

static struct sf_decoder *decoder(unsigned streams)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_decoder *d = NULL;

	ck_assert_msg(sf_decoder_new(SF_CODEC_ZSTD, streams, &d, &err) == 0, "%s", err.msg);
	return d;
}

START_TEST(every_line_of_the_table_says_what_the_reader_has_to_know)
{
	for (int c = SF_CODEC_NONE + 1; c < SF_NCODECS; c++) {
		const struct sf_codec_info *info = sf_codec_info((enum sf_codec)c);
		ck_assert_uint_gt(strlen(info->name), 0);
		ck_assert_uint_gt(info->state, 0);
		ck_assert_uint_le(info->window, info->window_least);
		ck_assert_uint_le(info->window_least, info->window_most);
	}
}
END_TEST

START_TEST(bytes_come_out_however_they_went_in)
{
	for (size_t step = 1; step <= sizeof(hello); step++) {
		struct sf_decoder *d = decoder(1);
		struct sf_buf out = { .limit = 6 };
		sf_decoder_window(d, 2 << 20); /* what its frame asks for */
		for (size_t at = 0; at < sizeof(hello); at += step)
			ck_assert_int_eq(sf_decoder_feed(d, hello + at,
			                                 SF_MIN(step, sizeof(hello) - at), &out,
			                                 NULL),
			                 0);
		ck_assert_int_eq(sf_decoder_end(d, NULL), 0);
		ck_assert_uint_eq(out.len, 6);
		ck_assert_mem_eq(out.at, "hello\n", 6);
		sf_buf_release(&out);
		sf_decoder_free(d);
	}
}
END_TEST

START_TEST(output_passes_no_limit_and_a_cut_stream_is_told)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf out = { .limit = 5 };
	struct sf_decoder *d = decoder(1);

	ck_assert_int_eq(sf_decoder_feed(d, hello, sizeof(hello), &out, &err), -E2BIG);
	ck_assert_int_lt(sf_decoder_feed(d, hello, 1, &out, NULL), 0);
	sf_decoder_free(d);
	sf_buf_release(&out);
	out = (struct sf_buf){ .limit = 100 };
	d = decoder(1);
	ck_assert_int_eq(sf_decoder_feed(d, hello, sizeof(hello) - 1, &out, NULL), 0);
	ck_assert_int_eq(sf_decoder_end(d, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "zstd") != NULL, "%s", err.msg);
	sf_decoder_free(d);
	sf_buf_release(&out);
	d = decoder(1);
	sf_decoder_window(d, 1 << 20);
	ck_assert_int_eq(sf_decoder_feed(d, hello, sizeof(hello), &out, NULL), -ENOBUFS);
	sf_decoder_free(d);
	sf_buf_release(&out);
	sf_decoder_free(NULL);
}
END_TEST

/* What no line of the table is for, and chains that are none or too long. */
START_TEST(what_is_not_in_the_table_is_refused)
{
	const struct {
		int codec;
		unsigned streams;
	} bad[] = { { SF_CODEC_NONE, 1 }, { SF_NCODECS, 1 },
		    { 255, 1 },           { -1, 1 },
		    { SF_CODEC_ZSTD, 0 }, { SF_CODEC_ZSTD, SF_CODEC_STREAMS_MAX + 1 } };

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_decoder *d = NULL;
		ck_assert_int_eq(
			sf_decoder_new((enum sf_codec)bad[i].codec, bad[i].streams, &d, &err),
			-ENOTSUP);
		ck_assert_ptr_null(d);
		ck_assert_uint_gt(strlen(err.msg), 10);
	}
	sf_decoder_free(decoder(SF_CODEC_STREAMS_MAX));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("codec");
	TCase *tc = tcase_create("codec");
	struct sf_decoder *d;

	tcase_add_test(tc, every_line_of_the_table_says_what_the_reader_has_to_know);
	if (sf_decoder_new(SF_CODEC_ZSTD, 1, &d, NULL) == 0) {
		sf_decoder_free(d);
		tcase_add_test(tc, bytes_come_out_however_they_went_in);
		tcase_add_test(tc, output_passes_no_limit_and_a_cut_stream_is_told);
		tcase_add_test(tc, what_is_not_in_the_table_is_refused);
	}
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
