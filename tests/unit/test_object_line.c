#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "cli/object_line.h"
#include "tests/lib/sf_test.h"

static struct sf_session s;
static uint32_t all[400];
static uint32_t n;

static void setup(void)
{
	struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	sf_session_options_init(&opt);
	int r = sf_session_open(&s, &opt, sf_test_data(path, "dcp/objects300/ckpt"), &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	n = s.catalog->n;
	ck_assert_uint_le(n, SF_ARRAY_LEN(all));
	for (uint32_t i = 0; i < n; i++)
		all[i] = i;
}

static void teardown(void)
{
	sf_session_close(&s);
}

/* Each line is that of its entry: the one that it has alone. */
static void compare(const struct sf_object_lines *l, const uint32_t *entry, uint32_t count)
{
	struct sf_object_lines one = { 0 };
	unsigned tensors = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct sf_entry *e = &s.catalog->entry[entry[i]];
		const char *line = sf_object_line(l, i);
		if (e->object == SF_NONE) {
			ck_assert_ptr_null(line);
			tensors++;
			continue;
		}
		ck_assert_int_eq(sf_object_lines_load(&one, &s, &entry[i], 1, NULL), 0);
		ck_assert_str_eq(line, sf_object_line(&one, 0));
		if (strcmp(e->name, "obj.betas") == 0)
			ck_assert_str_eq(line, "[0.9, 0.95]");
	}
	ck_assert_uint_le(tensors, 1);
	sf_object_lines_release(&one);
}

/* One, all of them, and few again: each list has its own values. */
START_TEST(lists_of_any_length_come_one_after_another)
{
	struct sf_object_lines l = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	const uint32_t count[] = { 1, n / 2, n, 3 };

	for (size_t i = 0; i < SF_ARRAY_LEN(count); i++) {
		int r = sf_object_lines_load(&l, &s, all + (n - count[i]), count[i], &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		compare(&l, all + (n - count[i]), count[i]);
	}
	sf_object_lines_release(&l);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("object_line");
	TCase *t = tcase_create("object_line");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, lists_of_any_length_come_one_after_another);
	suite_add_tcase(suite, t);
	return sf_test_main(suite);
}
