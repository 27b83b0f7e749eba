#include "config.h"

#include "base/mem.h"
#include "save/save_plan.h"
#include "tests/lib/sf_test.h"

#define ITEMS_MAX 200
#define FILES_MAX 9

static uint64_t len[ITEMS_MAX], off[ITEMS_MAX];
static uint8_t is_object[ITEMS_MAX], write_bits[ITEMS_MAX / 8 + 1];
static uint32_t file[ITEMS_MAX];
static const struct sf_layout_in in = { .len = len, .is_object = is_object };

static bool written(uint64_t i)
{
	return write_bits[i / 8] >> i % 8 & 1;
}

/* Apart, at multiples of 64, nothing between them but what aligns them; ends of the files. */
static void check_files(uint64_t n, unsigned nfiles, uint64_t *end)
{
	uint64_t sum = 0, all = 0;

	memset(end, 0, nfiles * sizeof(*end));
	for (uint64_t i = 0; i < n; i++) {
		if (!written(i))
			continue;
		ck_assert_uint_lt(file[i], nfiles);
		ck_assert_uint_eq(off[i] % 64, 0);
		end[file[i]] = SF_MAX(end[file[i]], off[i] + len[i]);
		sum += (len[i] + 63) / 64;
		for (uint64_t k = 0; k < i; k++)
			ck_assert(!written(k) || file[k] != file[i] || off[k] + len[k] <= off[i] ||
			          off[i] + len[i] <= off[k]);
	}
	for (unsigned f = 0; f < nfiles; f++)
		all += (end[f] + 63) / 64;
	ck_assert_uint_eq(all, sum);
}

START_TEST(items_lie_apart_and_files_are_about_as_long)
{
	uint64_t seed = sf_test_seed("items_lie_apart_and_files_are_about_as_long");

	for (int round = 0; round < 100; round++) {
		uint64_t n = sf_test_below(&seed, ITEMS_MAX + 1), most = 0, end[FILES_MAX];
		unsigned nfiles = 1 + (unsigned)sf_test_below(&seed, FILES_MAX);

		memset(write_bits, 0, sizeof(write_bits));
		for (uint64_t i = 0; i < n; i++) {
			len[i] = sf_test_below(&seed, 2) ? sf_test_below(&seed, 5000) : 64;
			is_object[i] = sf_test_below(&seed, 5) == 0;
			write_bits[i / 8] |= (uint8_t)((sf_test_below(&seed, 3) > 0) << i % 8);
			file[i] = 77;
			off[i] = 5;
			if (written(i))
				most = SF_MAX(most, len[i]);
		}
		ck_assert_int_eq(sf_save_layout(&in, n, write_bits, nfiles, file, off, NULL), 0);
		for (uint64_t i = 0; i < n; i++) {
			ck_assert_uint_eq(file[i] == 77, !written(i));
			ck_assert_uint_eq(off[i] == 5, !written(i));
		}
		check_files(n, nfiles, end);

		/* tensors alone: no file is longer than another by more than one of them */
		uint64_t least = UINT64_MAX, longest = 0;
		memset(is_object, 0, sizeof(is_object));
		ck_assert_int_eq(sf_save_layout(&in, n, write_bits, nfiles, file, off, NULL), 0);
		check_files(n, nfiles, end);
		for (unsigned f = 0; f < nfiles; f++) {
			least = SF_MIN(least, end[f]);
			longest = SF_MAX(longest, end[f]);
		}
		ck_assert_uint_le(longest, least + most + 64);
	}
}
END_TEST

START_TEST(one_file_has_tensors_as_they_came_and_then_objects)
{
	static const uint8_t object[4] = { 1, 0, 0, 1 };

	for (uint64_t i = 0; i < 4; i++) {
		len[i] = 10 + 100 * i;
		is_object[i] = object[i];
	}
	ck_assert_int_eq(sf_save_layout(&in, 4, NULL, 1, file, off, NULL), 0);
	ck_assert_uint_eq(off[1], 0);
	ck_assert_uint_eq(off[2], 128);
	ck_assert_uint_eq(off[0], 384);
	ck_assert_uint_eq(off[3], 448);
}
END_TEST

START_TEST(larger_tensors_come_first_and_objects_take_turns)
{
	static const uint64_t lens[6] = { 1, 1, 100, 300, 200, 64 };

	for (uint64_t i = 0; i < 6; i++) {
		len[i] = lens[i];
		is_object[i] = i < 2;
	}
	ck_assert_int_eq(sf_save_layout(&in, 6, NULL, 2, file, off, NULL), 0);
	ck_assert_uint_eq(file[3], 0);
	ck_assert_uint_eq(off[3], 0);
	ck_assert_uint_eq(file[4], 1);
	ck_assert_uint_eq(file[2], 1); /* 200 are less than 300 */
	ck_assert_uint_eq(off[2], 256);
	ck_assert_uint_eq(file[5], 0);
	ck_assert_uint_eq(file[0], 0);
	ck_assert_uint_eq(file[1], 1);
}
END_TEST

START_TEST(a_file_of_2_63_bytes_is_refused)
{
	struct sf_error err = SF_ERROR_INIT;

	memset(is_object, 0, sizeof(is_object));
	len[0] = 10;
	len[1] = (UINT64_C(1) << 63) - 10;
	ck_assert_int_eq(sf_save_layout(&in, 2, NULL, 2, file, off, &err), 0);
	ck_assert_int_eq(sf_save_layout(&in, 2, NULL, 1, file, off, &err), -E2BIG);
	ck_assert_str_eq(err.msg,
	                 "item 1 of 9223372036854775798 bytes: its file passes 2^63 bytes");
	len[1] = UINT64_MAX;
	ck_assert_int_eq(sf_save_layout(&in, 2, NULL, 2, file, off, &err), -E2BIG);
	ck_assert_int_eq(sf_save_layout(&in, 2, NULL, 0, file, off, &err), -EINVAL);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("save_layout");
	TCase *t = tcase_create("save_layout");

	tcase_add_test(t, items_lie_apart_and_files_are_about_as_long);
	tcase_add_test(t, one_file_has_tensors_as_they_came_and_then_objects);
	tcase_add_test(t, larger_tensors_come_first_and_objects_take_turns);
	tcase_add_test(t, a_file_of_2_63_bytes_is_refused);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
