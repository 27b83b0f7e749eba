#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/npy.h"
#include "tests/lib/sf_test.h"

START_TEST(a_header_is_numpys_byte_for_byte)
{
	/* numpy 2.4: np.save of zeros((2, 3), '<f4') */
	static const char want[] =
		"\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
	struct sf_buf b = { 0 };

	sf_npy_put_header(&b, "<f4", (const uint64_t[]){ 2, 3 }, 2);
	ck_assert_uint_eq(b.len, 128);
	ck_assert_mem_eq(b.at, want, sizeof(want) - 1);
	for (size_t i = sizeof(want) - 1; i < 127; i++)
		ck_assert_uint_eq(b.at[i], ' ');
	ck_assert_uint_eq(b.at[127], '\n');
	sf_buf_release(&b);
}
END_TEST

/* Any shape: the length field covers the text, all is a multiple of 64, room to grow is left, the
 * shape is a tuple's text. */
START_TEST(headers_of_any_shape_are_padded_and_say_it)
{
	uint64_t seed = sf_test_seed("headers_of_any_shape_are_padded_and_say_it");

	for (int i = 0; i < 3000; i++) {
		uint64_t shape[64];
		unsigned ndim = (unsigned)sf_test_below(&seed, i % 10 ? 6 : 65);
		struct sf_buf b = { 0 }, text = { 0 };
		for (unsigned d = 0; d < ndim; d++)
			shape[d] = sf_test_rand(&seed) >> sf_test_below(&seed, 64);
		sf_buf_str(&b, "abc"); /* the header need not be the buffer's first */
		sf_npy_put_header(&b, "|V1", shape, ndim);
		sf_buf_str(&text, "'shape': (");
		for (unsigned d = 0; d < ndim; d++)
			sf_buf_printf(&text, "%s%" PRIu64, d ? ", " : "", shape[d]);
		sf_buf_str(&text, ndim == 1 ? ",), }" : "), }");
		ck_assert_int_eq(sf_buf_check(&b), 0);
		ck_assert_uint_eq((b.len - 3) % 64, 0);
		ck_assert_uint_eq(sf_le16(b.at + 3 + 8) + 10u, b.len - 3);
		ck_assert_uint_eq(b.at[b.len - 1], '\n');
		const char *at = strstr(sf_buf_cstr(&b) + 3 + 10, sf_buf_cstr(&text));
		ck_assert_ptr_nonnull(at);
		size_t blanks = strspn(at + text.len, " ");
		ck_assert_ptr_eq(at + text.len + blanks, b.at + b.len - 1);
		if (ndim) {
			char digits[24];
			ck_assert_uint_ge(blanks, 21 - (size_t)snprintf(digits, sizeof(digits),
			                                                "%" PRIu64, shape[0]));
		}
		sf_buf_release(&b);
		sf_buf_release(&text);
	}
}
END_TEST

START_TEST(a_buffer_that_is_full_stays_failed)
{
	struct sf_buf b = { .limit = 50 };

	sf_npy_put_header(&b, "<f4", NULL, 0);
	ck_assert_int_eq(sf_buf_check(&b), -E2BIG);
	sf_buf_release(&b);
}
END_TEST

/* What is put is parsed; cut anywhere it is refused, and nothing behind the cut is looked at. */
START_TEST(a_header_is_read_back)
{
	const uint64_t shape[] = { 3, 0, 5 }, bytes[] = { 8, 24, 0, 0 };
	struct sf_error err = SF_ERROR_INIT;

	for (unsigned ndim = 0; ndim <= 3; ndim++) {
		struct sf_buf b = { 0 };
		struct sf_npy npy;
		size_t head;
		sf_npy_put_header(&b, "<c8", shape, ndim);
		ck_assert_int_eq(sf_npy_head(b.at, b.len, &head, &err), 0);
		ck_assert_uint_eq(head, b.len);
		ck_assert_int_eq(sf_npy_parse(b.at, b.len, &npy, &err), 0);
		ck_assert_uint_eq(npy.dtype, SF_COMPLEX64);
		ck_assert_uint_eq(npy.ndim, ndim);
		ck_assert(!npy.fortran);
		ck_assert_uint_eq(npy.data_off, b.len);
		ck_assert_uint_eq(npy.bytes, bytes[ndim]);
		for (size_t len = 0; len < b.len; len++) {
			uint8_t *cut = malloc(len + 1);
			memcpy(cut, b.at, len);
			ck_assert_int_eq(sf_npy_parse(cut, len, &npy, &err), -EBADMSG);
			free(cut);
		}
		sf_buf_release(&b);
	}
}
END_TEST

START_TEST(headers_that_are_none_are_refused)
{
	static const struct {
		const char *text;
		int r;
	} cases[] = {
		{ "{\"shape\":(2,),'fortran_order':True,'descr':\"<f4\"}", 0 },
		{ "{'descr': '=f4', 'fortran_order': True, 'shape': (2, 3)}", 0 },
		{ "{'descr': '|V2', 'fortran_order': False, 'shape': (), }", 0 },
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", -ENOTSUP },
		{ "{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }", -ENOTSUP },
		{ "{'descr': '<U9', 'fortran_order': False, 'shape': (2,), }", -ENOTSUP },
		{ "{'descr': '', 'fortran_order': False, 'shape': (2,), }", -EBADMSG },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': False}", -EBADMSG },
		{ "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
		  -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
		  -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
		  -EBADMSG },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2,", -EBADMSG },
		{ "{'descr': '<f4", -EBADMSG },
		{ "", -EBADMSG },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		uint8_t *at = malloc(10 + len);
		struct sf_error err = SF_ERROR_INIT;
		struct sf_npy npy;
		memcpy(at, "\x93NUMPY\1\0", 8);
		at[8] = (uint8_t)len;
		at[9] = 0;
		memcpy(at + 10, cases[i].text, len);
		int r = sf_npy_parse(at, 10 + len, &npy, &err);
		ck_assert_msg(r == cases[i].r, "%s: %d %s", cases[i].text, r, err.msg);
		free(at);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("npy");
	TCase *t = tcase_create("npy");

	tcase_add_test(t, a_header_is_numpys_byte_for_byte);
	tcase_add_test(t, headers_of_any_shape_are_padded_and_say_it);
	tcase_add_test(t, a_buffer_that_is_full_stays_failed);
	tcase_add_test(t, a_header_is_read_back);
	tcase_add_test(t, headers_that_are_none_are_refused);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
