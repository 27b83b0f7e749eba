#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/lib/sf_test.h"

/* A small archive of @n records of one byte, named p/NAMES[i]. */
static void make(struct sf_buf *b, const char *const *names, size_t n, struct sf_zip_entry *e)
{
	for (size_t i = 0; i < n; i++) {
		e[i] = (struct sf_zip_entry){ names[i], strlen(names[i]), b->len, 1, 0 };
		sf_zip_put_header(b, &e[i]);
		sf_buf_byte(b, (uint8_t)('a' + i));
	}
	size_t dir = b->len;
	for (size_t i = 0; i < n; i++)
		sf_zip_put_central(b, &e[i]);
	sf_zip_put_end(b, n, dir, b->len - dir);
	ck_assert_int_eq(sf_buf_check(b), 0);
}

static int read_dir(const uint8_t *p, size_t len, struct sf_arena *arena, struct sf_zip_dir *d,
                    struct sf_error *err)
{
	struct sf_zip_end end;
	size_t tail = SF_MIN(len, (size_t)SF_ZIP_TAIL);
	int r = sf_zip_find_end(p + len - tail, tail, len, &end, err);

	return r < 0 ? r : sf_zip_parse_dir(p + end.dir_off, &end, len, arena, d, err);
}

static const char *const three[] = { "p/data.pkl", "p/data/0", "p/version" };

START_TEST(an_archive_cut_anywhere_is_refused_with_a_message)
{
	struct sf_zip_entry e[3];
	struct sf_buf b = { 0 };

	make(&b, three, 3, e);
	for (size_t len = 0; len <= b.len; len++) {
		uint8_t *copy = malloc(
			len + 1); /* of its own size, so that a sanitizer sees each byte too far */
		struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_zip_dir d;
		memcpy(copy, b.at, len);
		int r = read_dir(copy, len, &arena, &d, &err);
		ck_assert_int_eq(r, len < b.len ? -EBADMSG : 0);
		ck_assert_int_eq(err.msg[0] != '\0', r < 0);
		sf_arena_release(&arena);
		free(copy);
	}
	sf_buf_release(&b);
}
END_TEST

/* Every byte set to others: never a crash, never a record outside of the archive. */
START_TEST(a_changed_byte_never_gives_a_record_past_the_end)
{
	struct sf_zip_entry e[3];
	struct sf_buf b = { 0 };
	int good = 0;

	make(&b, three, 3, e);
	for (size_t i = 0; i < b.len; i++)
		for (int v = 0; v < 256; v += 5) {
			uint8_t was = b.at[i];
			struct sf_arena arena = { .limit = 1 << 20 };
			struct sf_zip_dir d;
			b.at[i] = (uint8_t)v;
			if (read_dir(b.at, b.len, &arena, &d, NULL) == 0) {
				good++;
				for (size_t k = 0; k < d.n; k++)
					ck_assert_uint_le(d.at[k].header_off + d.at[k].comp_size,
					                  b.len);
			}
			sf_arena_release(&arena);
			b.at[i] = was;
		}
	ck_assert_int_gt(good, 0);
	sf_buf_release(&b);
}
END_TEST

START_TEST(of_equal_names_the_first_is_found)
{
	static const char *const names[] = { "p/b", "p/a", "p/b", "q/c", "p", "p/a" };
	struct sf_zip_entry e[6];
	struct sf_buf b = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_zip_dir d;

	make(&b, names, 6, e);
	ck_assert_int_eq(read_dir(b.at, b.len, &arena, &d, NULL), 0);
	ck_assert_ptr_eq(sf_zip_find(&d, "b"), &d.at[0]);
	ck_assert_ptr_eq(sf_zip_find(&d, "a"), &d.at[1]);
	ck_assert_ptr_null(sf_zip_find(&d, "c")); /* of another prefix */
	sf_arena_release(&arena);
	sf_buf_release(&b);
}
END_TEST

/* An ordinary archive: no zip64 structures, a comment behind the end. */
START_TEST(plain_ends_with_comments_are_found)
{
	struct sf_zip_entry e[3];
	struct sf_buf b = { 0 };

	make(&b, three, 3, e);
	size_t end = b.len - 22;
	memmove(b.at + end - 76, b.at + end, 22);
	b.len -= 76;
	for (size_t comment = 1; comment <= 65535;
	     comment = 2 * comment + 1) { /* the last: 65,535 */
		struct sf_arena arena = { 0 };
		struct sf_zip_dir d;
		while (b.len < end - 76 + 22 + comment)
			sf_buf_byte(&b, ' ');
		ck_assert_int_eq(read_dir(b.at, b.len, &arena, &d, NULL), 0);
		ck_assert_uint_eq(d.n, 3);
		sf_arena_release(&arena);
	}
	/* a longer one cannot be: its length has 16 bits */
	struct sf_zip_end found;
	sf_buf_byte(&b, ' ');
	ck_assert_int_eq(sf_zip_find_end(b.at, b.len, b.len, &found, NULL), -EBADMSG);
	sf_buf_release(&b);
}
END_TEST

START_TEST(hostile_counts_are_refused_before_memory_is_asked_for)
{
	struct sf_zip_entry e[3];
	struct sf_buf b = { 0 };
	struct sf_zip_end end;
	struct sf_error err = SF_ERROR_INIT;

	make(&b, three, 3, e);
	uint8_t *end64 = b.at + b.len - SF_ZIP_END_LEN;
	sf_put_le64(end64 + 32, UINT64_MAX / 2);
	ck_assert_int_eq(sf_zip_find_end(b.at, b.len, b.len, &end, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "9223372036854775807 entries"));
	sf_put_le64(end64 + 32, 3);
	sf_put_le64(end64 + 48, UINT64_MAX - 5); /* offset + length overflows */
	ck_assert_int_eq(sf_zip_find_end(b.at, b.len, b.len, &end, &err), -EBADMSG);
	sf_buf_release(&b);
}
END_TEST

/* A locator may name any offset. Only the tail is in memory: what is in front of it must not be
 * looked at. */
START_TEST(a_zip64_end_in_front_of_the_tail_is_refused)
{
	struct sf_zip_entry e[3];
	struct sf_buf b = { 0 };
	struct sf_zip_end end;

	make(&b, three, 3, e);
	uint8_t *locator = b.at + b.len - 22 - 20;
	ck_assert_uint_eq(sf_le32(locator), 0x07064b50u);
	const uint64_t archive = UINT64_C(1) << 40, tail_off = archive - b.len;
	const uint64_t at[] = { 0, tail_off - 1, tail_off - 56, UINT64_MAX };
	uint8_t *tail = malloc(b.len); /* of its own size, for the sanitizer */
	for (size_t i = 0; i < SF_ARRAY_LEN(at); i++) {
		struct sf_error err = SF_ERROR_INIT;
		sf_put_le64(locator + 8, at[i]);
		memcpy(tail, b.at, b.len);
		ck_assert_int_eq(sf_zip_find_end(tail, b.len, archive, &end, &err), -EBADMSG);
		ck_assert_msg(strstr(err.msg, "zip64 end at ") != NULL, "%s", err.msg);
	}
	free(tail);
	sf_buf_release(&b);
}
END_TEST

START_TEST(archives_of_several_parts_are_refused)
{
	struct sf_zip_entry e[3];
	struct sf_buf b = { 0 };
	struct sf_zip_end end;

	make(&b, three, 3, e);
	for (size_t field = 4; field <= 6; field += 2) { /* this disk, the directory's */
		struct sf_error err = SF_ERROR_INIT;
		b.at[b.len - 22 + field] = 1;
		ck_assert_int_eq(sf_zip_find_end(b.at, b.len, b.len, &end, &err), -ENOTSUP);
		ck_assert_ptr_nonnull(strstr(err.msg, "several parts"));
		b.at[b.len - 22 + field] = 0;
	}
	ck_assert_int_eq(sf_zip_find_end(b.at, b.len, b.len, &end, NULL), 0);
	sf_buf_release(&b);
}
END_TEST

START_TEST(a_local_header_without_its_signature_is_refused)
{
	uint8_t h[30] = "PK\3\4";
	struct sf_error err = SF_ERROR_INIT;
	uint64_t off = 7;

	h[26] = 10;
	h[28] = 5;
	ck_assert_int_eq(sf_zip_local_data(h, 100, &off, &err), 0);
	ck_assert_uint_eq(off, 145);
	ck_assert_int_eq(sf_zip_local_data(h, UINT64_MAX - 10, &off, &err), -EBADMSG);
	h[0] = 'Q';
	ck_assert_int_eq(sf_zip_local_data(h, 100, &off, &err), -EBADMSG);
	ck_assert_uint_eq(off, 145);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("zip_read");
	TCase *t = tcase_create("zip_read");

	tcase_add_test(t, an_archive_cut_anywhere_is_refused_with_a_message);
	tcase_add_test(t, a_changed_byte_never_gives_a_record_past_the_end);
	tcase_add_test(t, of_equal_names_the_first_is_found);
	tcase_add_test(t, plain_ends_with_comments_are_found);
	tcase_add_test(t, hostile_counts_are_refused_before_memory_is_asked_for);
	tcase_add_test(t, a_zip64_end_in_front_of_the_tail_is_refused);
	tcase_add_test(t, archives_of_several_parts_are_refused);
	tcase_add_test(t, a_local_header_without_its_signature_is_refused);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
