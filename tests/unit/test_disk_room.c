#include "config.h"
#include <string.h>
#include "tests/lib/sf_test.h"
#include "tool/disk_room.h"

static int ask(const char *dir, uint64_t a, uint64_t b, struct sf_error *err)
{
	struct sf_disk_room room = { 0 };
	char path[512];

	snprintf(path, sizeof(path), "%s/no such directory/a", dir);
	ck_assert_int_eq(sf_disk_room_add(&room, path, a, err), 0);
	snprintf(path, sizeof(path), "%s/no such directory/b", dir);
	ck_assert_int_eq(sf_disk_room_add(&room, path, b, err), 0);
	int r = sf_disk_room_check(&room, err);
	sf_disk_room_release(&room);
	return r;
}

START_TEST(what_fits_fits_and_what_does_not_is_told_with_both_numbers)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(ask("/tmp", 0, 0, &err), 0);
	ck_assert_int_eq(ask("/tmp", 1, 4096, &err), 0);
	ck_assert_int_eq(ask("/tmp", UINT64_C(1) << 61, 5, &err), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err.msg, "2305843009213693957"));
	ck_assert_ptr_nonnull(strstr(err.msg, "'/tmp'"));
	ck_assert_ptr_nonnull(strstr(err.msg, "free"));
	/* a sum that passes 64 bits is none that fits */
	ck_assert_int_eq(ask("/tmp", UINT64_MAX, 4096, &err), -ENOSPC);
	ck_assert_int_eq(ask("/tmp", UINT64_MAX - 3, UINT64_MAX - 5, &err), -ENOSPC);
}
END_TEST

START_TEST(each_file_system_is_asked_for_its_own)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_disk_room room = { 0 };

	ck_assert_int_eq(sf_disk_room_add(&room, "/tmp/x", 1, &err), 0);
	ck_assert_int_eq(sf_disk_room_add(&room, "/proc/x", UINT64_C(1) << 61, &err), 0);
	ck_assert_int_eq(sf_disk_room_add(&room, "/tmp/y", 1, &err), 0);
	ck_assert_uint_eq(room.n, 2);
	ck_assert_uint_eq(room.at[0].bytes, 2);
	/* /proc does not say how much it has */
	int r = sf_disk_room_check(&room, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	room.at[0].bytes = UINT64_C(1) << 61;
	ck_assert_int_eq(sf_disk_room_check(&room, &err), -ENOSPC);
	sf_disk_room_release(&room);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("disk_room");
	TCase *tc = tcase_create("room");
	tcase_add_test(tc, what_fits_fits_and_what_does_not_is_told_with_both_numbers);
	tcase_add_test(tc, each_file_system_is_asked_for_its_own);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
