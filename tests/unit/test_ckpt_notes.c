#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "sf_test.h"

/* A checkpoint of one object at a path of @n elements. */
static struct sf_ckpt *deep(unsigned n)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_path_elem path[128];
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	char name[512] = "";
	uint32_t id;

	for (unsigned i = 0; i < n; i++) {
		path[i] = (struct sf_path_elem){ "a", 1, 0 };
		strcat(name, i ? ".a" : "a");
	}
	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "here", &b, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_object(b, name, strlen(name), &id, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, name, strlen(name), path, n, &err), 0);
	ck_assert_msg(sf_ckpt_builder_finish(b, &ckpt, &err) == 0, "%s", err.msg);
	return ckpt;
}

static const struct sf_warning *warning(const struct sf_ckpt *ckpt, const char *code)
{
	for (uint32_t i = 0; i < ckpt->nwarnings; i++)
		if (strcmp(ckpt->warning[i].code, code) == 0)
			return &ckpt->warning[i];
	return NULL;
}

START_TEST(keys_deeper_than_pt_files_nest_are_said)
{
	struct sf_ckpt *ckpt = deep(64);

	ck_assert_ptr_null(warning(ckpt, "deep-path"));
	sf_ckpt_free(ckpt);
	ckpt = deep(65);
	ck_assert_ptr_nonnull(warning(ckpt, "deep-path"));
	ck_assert_ptr_nonnull(strstr(warning(ckpt, "deep-path")->text, "1 key lies"));
	ck_assert_ptr_nonnull(strstr(warning(ckpt, "deep-path")->text, "'a.a.a."));
	ck_assert(sf_warning_is_note("deep-path"));
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(notes_are_not_damage_and_damage_is_no_note)
{
	ck_assert(sf_warning_is_note("unread-files"));
	ck_assert(sf_warning_is_note("plain-reading"));
	ck_assert(!sf_warning_is_note("hole"));
	ck_assert(!sf_warning_is_note("missing-file"));
	ck_assert(!sf_warning_is_note("unreadable-file"));
	ck_assert(!sf_warning_is_note("transform"));
}
END_TEST

/* Three tensors, of which two name the item at 100, or the one at 300 another file's. */
static struct sf_ckpt *three(uint64_t second, const char *third_file, enum sf_item_form form)
{
	static const char *const names[] = { "a", "b", "c" };
	const uint64_t zero = 0, four = 4, off[] = { 100, second, 300 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	uint32_t place, id;

	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "here", &b, &err), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(sf_ckpt_builder_place(b, i == 2 ? third_file : "f", 1, form,
		                                       SF_CODEC_NONE, &place, &err),
		                 0);
		ck_assert_int_eq(
			sf_ckpt_builder_tensor(b, names[i], 1, SF_FLOAT32, &four, 1, &id, &err), 0);
		ck_assert_int_eq(sf_ckpt_builder_chunk(b, &zero, &four, &err), 0);
		sf_ckpt_builder_set_item(b, id, 0, place, off[i], 1000);
	}
	ck_assert_msg(sf_ckpt_builder_finish(b, &ckpt, &err) == 0, "%s", err.msg);
	return ckpt;
}

START_TEST(tensors_that_share_an_item_are_said)
{
	struct sf_ckpt *ckpt = three(200, "f", SF_ITEM_TORCH);

	ck_assert_ptr_null(warning(ckpt, "shared-item"));
	sf_ckpt_free(ckpt);
	ckpt = three(300, "g", SF_ITEM_TORCH);
	ck_assert_ptr_null(warning(ckpt, "shared-item"));
	sf_ckpt_free(ckpt);
	ckpt = three(100, "f", SF_ITEM_ST_BLOB);
	ck_assert_ptr_null(warning(ckpt, "shared-item"));
	sf_ckpt_free(ckpt);
	ckpt = three(100, "f", SF_ITEM_TORCH);
	ck_assert_ptr_nonnull(warning(ckpt, "shared-item"));
	ck_assert_ptr_nonnull(strstr(warning(ckpt, "shared-item")->text, "1 tensor has"));
	ck_assert_ptr_nonnull(strstr(warning(ckpt, "shared-item")->text, "'b'"));
	ck_assert_ptr_nonnull(strstr(warning(ckpt, "shared-item")->text, " 16 bytes more"));
	ck_assert(sf_warning_is_note("shared-item"));
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ckpt_notes");
	TCase *tc = tcase_create("ckpt_notes");

	tcase_add_test(tc, keys_deeper_than_pt_files_nest_are_said);
	tcase_add_test(tc, tensors_that_share_an_item_are_said);
	tcase_add_test(tc, notes_are_not_damage_and_damage_is_no_note);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
