#include "config.h"

#include "read/reader.h"
#include "tests/lib/load.h"

/* Integers saved with torch's negative bit: any range of them has the bytes of the whole. */
START_TEST(any_range_of_negated_integers_is_a_part_of_the_whole)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = load_good("dcp/neg_ints/ckpt");
	struct sf_reader *r;
	struct sf_store *store;
	char path[4096];
	uint8_t whole[512], part[512];

	ck_assert_int_ge(sf_store_open(load_io(), sf_test_data(path, "dcp/neg_ints/ckpt"), NULL,
	                               &store, &err),
	                 0);
	ck_assert_int_ge(sf_reader_new(ckpt, store, &r, &err), 0);
	ck_assert_uint_ge(ckpt->ntensors, 6);
	for (uint32_t t = 0; t < ckpt->ntensors; t++) {
		uint64_t n = ckpt->tensor[t].bytes;
		ck_assert_uint_le(n, sizeof(whole));
		ck_assert_msg(sf_read_tensor(r, t, 0, whole, n, &err) == 0, "%s", err.msg);
		for (uint64_t off = 0; off < n; off++)
			for (uint64_t len = 1; len <= n - off; len += 1 + len / 5) {
				ck_assert_msg(sf_read_tensor(r, t, off, part, len, &err) == 0, "%s",
				              err.msg);
				ck_assert_mem_eq(part, whole + off, len);
			}
	}
	sf_reader_free(r);
	sf_store_free(store);
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("negated");
	TCase *tc = tcase_create("negated");

	tcase_add_test(tc, any_range_of_negated_integers_is_a_part_of_the_whole);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
