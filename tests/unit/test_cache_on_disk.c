/* The block cache: its files, and what becomes of damaged ones. */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

START_TEST(the_files_are_ours_alone_and_name_no_secret)
{
	struct sf_source *src;
	struct stat st;

	cw_begin(&w, NULL);
	umask(0);
	src = cw_open(&w);
	cw_read(&w, src, 20 * B, 1);
	ck_assert_int_eq(stat(cw_file(&w, ".data"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_uint_eq((uint64_t)st.st_size, CW_BYTES);
	ck_assert_uint_le((uint64_t)st.st_blocks * 512, 2 * B); /* the rest are holes */
	ck_assert_int_eq(stat(cw_file(&w, ".map"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static void flip(const char *path, uint64_t *state)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	uint8_t byte;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	if (st.st_size) {
		off_t at = (off_t)sf_test_below(state, (size_t)st.st_size);
		ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
		byte ^= (uint8_t)(1u << sf_test_below(state, 8));
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
}

START_TEST(damage_on_disk_is_a_miss)
{
	uint64_t state = sf_test_seed("damage");

	for (int round = 0; round < 60; round++) {
		cw_begin(&w, NULL);
		struct sf_source *src = cw_open(&w);
		cw_read(&w, src, 0, CW_BYTES);
		sf_source_unref(src);
		cw_end(&w);
		for (size_t n = 1 + sf_test_below(&state, 4); n; n--) {
			const char *path = cw_file(&w, sf_test_below(&state, 2) ? ".map" : ".data");
			struct stat st;
			switch (sf_test_below(&state, 8)) {
			case 0:
				ck_assert_int_eq(stat(path, &st), 0);
				ck_assert_int_eq(
					truncate(path, (off_t)sf_test_below(
							       &state, (size_t)st.st_size + 9)),
					0);
				break;
			case 1:
				ck_assert_int_eq(truncate(path, 0), 0);
				break;
			default:
				flip(path, &state);
			}
		}
	}
	cw_remove(&w);
}
END_TEST

/* Somebody puts another object's files, whole and right, in the place of ours. */
START_TEST(files_of_another_object_are_not_ours)
{
	char map[400], data[400], other_map[400], other_data[400];
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	snprintf(map, sizeof(map), "%s", cw_file(&w, ".map"));
	snprintf(data, sizeof(data), "%s", cw_file(&w, ".data"));
	snprintf(other_map, sizeof(other_map), "%s/m", w.dir);
	snprintf(other_data, sizeof(other_data), "%s/d", w.dir);
	ck_assert_int_eq(rename(map, other_map), 0);
	ck_assert_int_eq(rename(data, other_data), 0);
	for (size_t i = 0; i < CW_BYTES; i++)
		w.bytes[i] ^= 0xff; /* the next version */
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 0, 1);
	sf_source_unref(src);
	cw_end(&w);
	snprintf(map, sizeof(map), "%s", cw_file(&w, ".map"));
	snprintf(data, sizeof(data), "%s", cw_file(&w, ".data"));
	if (_i & 1)
		ck_assert_int_eq(rename(other_map, map), 0);
	if (_i & 2)
		ck_assert_int_eq(rename(other_data, data), 0);
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(a_file_cut_while_it_is_open_is_a_miss)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_int_eq(truncate(cw_file(&w, ".data"), 0), 0);
	cw_read(&w, src, 0, CW_BYTES);
	cw_read(&w, src, 5, CW_BYTES - 5);
	cw_read(&w, src, 5, CW_BYTES - 5);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* What is fetched after that goes elsewhere: written to the short file it would make holes of what was
 * there. */
START_TEST(a_file_that_was_cut_is_not_made_long_again)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES / 2);
	ck_assert_int_eq(truncate(cw_file(&w, ".data"), _i ? (off_t)SF_CACHE_BLOCK : 0), 0);
	cw_read(&w, src, CW_BYTES - 100, 100);
	for (int i = 0; i < 20; i++) { /* what is written behind has its time */
		usleep(2000);
		cw_read(&w, src, 0, CW_BYTES / 2);
	}
	sf_source_unref(src);
	cw_end(&w);
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* One process has it open, somebody cuts it, another process opens it and fills its own. */
START_TEST(two_processes_and_a_file_that_was_cut)
{
	static struct cache_world v;
	struct sf_source *src, *other;

	memset(&v, 0, sizeof(v));
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_int_eq(truncate(cw_file(&w, ".data"), _i ? (off_t)SF_CACHE_BLOCK + 5 : 0), 0);
	memcpy(v.dir, w.dir, sizeof(v.dir));
	cw_begin(&v, NULL);
	other = cw_open(&v);
	cw_read(&v, other, CW_BYTES / 2, 1000);
	cw_read(&w, src, 0, CW_BYTES);
	cw_read(&v, other, 0, CW_BYTES);
	cw_read(&w, src, 5, CW_BYTES - 5);
	sf_source_unref(other);
	sf_source_unref(src);
	cw_end(&v);
	cw_end(&w);
	free(v.bytes);
	cw_remove(&w);
}
END_TEST

static void clean(void)
{
	memset(&w, 0, sizeof(w));
}

int main(void)
{
	Suite *s = suite_create("cache_on_disk");
	TCase *t = tcase_create("cache_on_disk");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_files_are_ours_alone_and_name_no_secret);
	tcase_add_test(t, damage_on_disk_is_a_miss);
	tcase_add_loop_test(t, files_of_another_object_are_not_ours, 0, 4);
	tcase_add_test(t, a_file_cut_while_it_is_open_is_a_miss);
	tcase_add_loop_test(t, a_file_that_was_cut_is_not_made_long_again, 0, 2);
	tcase_add_loop_test(t, two_processes_and_a_file_that_was_cut, 0, 2);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
