#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "parse/tar.h"
#include "tests/lib/sf_test.h"

/* Archives that are put together header by header, given to the parser in pieces of any length. */

static struct sf_buf ar;

static void set_sum(uint8_t *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
}

static void header(const char *name, char type, uint64_t size, const char *link)
{
	uint8_t *h = sf_buf_extend(&ar, 512);

	memset(h, 0, 512);
	memcpy(h, name, SF_MIN(strlen(name), (size_t)100));
	snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)size);
	h[156] = (uint8_t)type;
	memcpy(h + 157, link, strlen(link));
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	set_sum(h);
}

static void data(const char *text, size_t len)
{
	sf_buf_add(&ar, text, len);
	while (ar.len % 512)
		sf_buf_byte(&ar, 0);
}

static void file(const char *name, const char *text)
{
	header(name, '0', strlen(text), "");
	data(text, strlen(text));
}

static void zeros(void)
{
	for (int i = 0; i < 1024; i++)
		sf_buf_byte(&ar, 0);
}

/* Windows of @step bytes at least, as who reads from afar has them. */
static int parse(struct sf_tar *t, struct sf_arena *arena, size_t step, struct sf_error *err)
{
	int r = 1;

	sf_tar_init(t, ar.len, arena);
	while (r > 0) {
		uint64_t left = t->at < ar.len ? ar.len - t->at : 0;
		size_t len = (size_t)SF_MIN(SF_MAX(t->want, (uint64_t)step), left);
		r = sf_tar_take(t, ar.at + (left ? t->at : 0), len, err);
	}
	return r;
}

static const size_t steps[] = { 0, 700, 5000, 1 << 20 };

static void check(const char *const *want, size_t n)
{
	for (size_t s = 0; s < SF_ARRAY_LEN(steps); s++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_arena arena = { 0 };
		struct sf_tar t;

		ck_assert_msg(parse(&t, &arena, steps[s], &err) == 0, "%s", err.msg);
		ck_assert_uint_eq(t.member.n, n);
		for (size_t i = 0; i < n; i++) {
			const struct sf_tar_member *m = &t.member.at[i];
			ck_assert_str_eq(m->name, want[2 * i]);
			ck_assert_uint_eq(m->size, strlen(want[2 * i + 1]));
			ck_assert_int_eq(memcmp(ar.at + m->off, want[2 * i + 1], m->size), 0);
		}
		sf_tar_release(&t);
		sf_arena_release(&arena);
	}
	sf_buf_release(&ar);
}

static void fails(int code, const char *const *words)
{
	for (size_t s = 0; s < SF_ARRAY_LEN(steps); s++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_arena arena = { 0 };
		struct sf_tar t;

		ck_assert_int_eq(parse(&t, &arena, steps[s], &err), code);
		for (const char *const *w = words; *w; w++)
			ck_assert_msg(strstr(err.msg, *w), "'%s' is not in: %s", *w, err.msg);
		sf_tar_release(&t);
		sf_arena_release(&arena);
	}
	sf_buf_release(&ar);
}
#define FAILS(code, ...) fails(code, (const char *const[]){ __VA_ARGS__, NULL })

START_TEST(members_are_in_order_of_their_names)
{
	header("./", '5', 0, "");
	file("./b/two", "second");
	file("/a", "first");
	header("b/", '5', 0, "");
	file("empty", "");
	header("fifo", '6', 0, "");
	header("soft", '2', 0, "a");
	header("hard", '1', 0, "./b/two");
	header("gone", '1', 0, "nobody");
	zeros();
	check((const char *const[]){ "a", "first", "b/two", "second", "empty", "", "hard",
	                             "second" },
	      4);
}
END_TEST

START_TEST(what_is_written_again_is_the_later_one)
{
	file("x", "old");
	file("x", "newer");
	zeros();
	check((const char *const[]){ "x", "newer" }, 1);
}
END_TEST

START_TEST(long_names_of_gnu_and_pax)
{
	char name[300], text[400];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	header("././@LongLink", 'L', sizeof(name), "");
	data(name, sizeof(name));
	file("nnn", "gnu");
	name[0] = 'p';
	header("././@PaxHeader", 'x',
	       (uint64_t)snprintf(text, sizeof(text), "29 mtime=1700000000.12345678\n309 path=%s\n",
	                          name),
	       "");
	data(text, strlen(text));
	file("ppp", "pax");
	zeros();
	name[0] = 'n';
	SF_FREE char *gnu = strdup(name);
	name[0] = 'p';
	check((const char *const[]){ gnu, "gnu", name, "pax" }, 2);
}
END_TEST

START_TEST(a_size_may_be_paxs_or_binary)
{
	const char *pax = "10 size=3\n";

	header("h", 'x', strlen(pax), "");
	data(pax, strlen(pax));
	header("a", '0', 0, "");
	data("abc", 3);
	header("b", '0', 0, "");
	uint8_t *h = ar.at + ar.len - 512;
	memset(h + 124, 0, 12);
	h[124] = 0x80;
	h[135] = 4;
	set_sum(h);
	data("wxyz", 4);
	zeros();
	check((const char *const[]){ "a", "abc", "b", "wxyz" }, 2);
}
END_TEST

START_TEST(a_wrong_sum_is_told_with_its_place)
{
	file("a", "text");
	file("b", "text");
	ar.at[1024] ^= 1;
	zeros();
	FAILS(-EBADMSG, "at 1024", "its sum");
}
END_TEST

START_TEST(a_member_that_passes_the_end_is_told_with_both_numbers)
{
	header("a/liar", '0', 5000, "");
	zeros();
	FAILS(-EBADMSG, "a/liar", "5000", "1536");
}
END_TEST

START_TEST(an_archive_without_its_end_was_cut)
{
	file("a", "text");
	FAILS(-EBADMSG, "ends at 1024", "cut");
	file("a", "text");
	header("././@LongLink", 'L', 100, "");
	data("n", 1);
	FAILS(-EBADMSG, "ends at 2048", "cut");
}
END_TEST

START_TEST(names_that_lead_out_are_refused)
{
	file("a/../../etc/passwd", "x");
	zeros();
	FAILS(-EBADMSG, "a/../../etc/passwd");
}
END_TEST

START_TEST(sparse_members_and_bad_pax_are_refused)
{
	header("sparse", 'S', 0, "");
	zeros();
	FAILS(-ENOTSUP, "sparse");
	header("h", 'x', 20, "");
	data("99 path=x\n", 10);
	file("a", "");
	zeros();
	FAILS(-EBADMSG, "pax");
	header("h", 'L', UINT64_C(1) << 31, "");
	zeros();
	FAILS(-EBADMSG, "2147483648");
}
END_TEST

START_TEST(an_empty_archive_has_no_members)
{
	zeros();
	check(NULL, 0);
	ck_assert(!sf_tar_begins((const uint8_t *)"", 0));
	file("a", "");
	ck_assert(sf_tar_begins(ar.at, 512));
	ck_assert(!sf_tar_begins(ar.at, 511));
	ar.at[0]++;
	ck_assert(!sf_tar_begins(ar.at, 512));
	sf_buf_release(&ar);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tar");
	TCase *tc = tcase_create("tar");

	tcase_add_test(tc, members_are_in_order_of_their_names);
	tcase_add_test(tc, what_is_written_again_is_the_later_one);
	tcase_add_test(tc, long_names_of_gnu_and_pax);
	tcase_add_test(tc, a_size_may_be_paxs_or_binary);
	tcase_add_test(tc, a_wrong_sum_is_told_with_its_place);
	tcase_add_test(tc, a_member_that_passes_the_end_is_told_with_both_numbers);
	tcase_add_test(tc, an_archive_without_its_end_was_cut);
	tcase_add_test(tc, names_that_lead_out_are_refused);
	tcase_add_test(tc, sparse_members_and_bad_pax_are_refused);
	tcase_add_test(tc, an_empty_archive_has_no_members);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
