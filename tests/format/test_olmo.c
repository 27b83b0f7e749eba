#include "config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/olmo/olmo.h"
#include "tests/lib/family_world.h"
#include "tests/lib/load.h"

#define DIR_OF "olmo/"

static const struct {
	const char *name, *below;
	unsigned tensors;
} cases[] = { { "core_3.0", "ckpt/step20", 41 },
	      { "local", "ckpt/step10", 51 },
	      { "torch_legacy", "ckpt/step10", 51 },
	      { "olmo_core", "ckpt/step10", 51 } };

START_TEST(each_layout_has_the_tensors_that_were_saved)
{
	struct family f = { 0 };
	char dir[100];

	snprintf(dir, sizeof(dir), DIR_OF "%s", cases[_i].name);
	family_open(&f, dir, cases[_i].below);
	ck_assert_str_eq(f.s.ckpt->format, "olmo-core");
	ck_assert_uint_eq(family_check_all(&f, "tensors", ""), cases[_i].tensors);
	family_check_objects(&f);
	ck_assert_int_eq(load_group(f.s.ckpt, "model")->role, SF_ROLE_MODEL);
	ck_assert_int_eq(load_group(f.s.ckpt, "optim")->role, SF_ROLE_OPTIM);
	ck_assert_int_eq(load_group(f.s.ckpt, "train")->role, SF_ROLE_OTHER);
	for (uint32_t i = 0; i < f.s.ckpt->nwarnings; i++)
		ck_assert_msg(sf_warning_is_note(f.s.ckpt->warning[i].code), "%s",
		              f.s.ckpt->warning[i].text);
	family_close(&f);
}
END_TEST

/* ---- a copy that is changed ---- */

static char copy[256];

__attribute__((format(printf, 1, 2))) static void sh(const char *fmt, ...)
{
	char cmd[8192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	ck_assert_msg(system(cmd) == 0, "%s", cmd);
}

static void copy_case(const char *name, const char *below)
{
	char path[4096], from[200];

	snprintf(copy, sizeof(copy), "/tmp/sf-olmo-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(copy));
	snprintf(from, sizeof(from), DIR_OF "%s/%s", name, below);
	sh("cp -r '%s'/. '%s' && chmod -R u+w '%s'", sf_test_data(path, from), copy, copy);
}

/* What loading it says: its code, and the text of the warning @code or of the error. */
static int load_copy(struct sf_session *s, const char *code, char text[SF_ERROR_MAX])
{
	static struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;

	sf_session_options_init(&opt);
	opt.threads = 2;
	int r = sf_session_open(s, &opt, copy, &err);
	snprintf(text, SF_ERROR_MAX, "%s", err.msg);
	for (uint32_t i = 0; r >= 0 && i < s->ckpt->nwarnings; i++)
		if (strcmp(s->ckpt->warning[i].code, code) == 0)
			snprintf(text, SF_ERROR_MAX, "%s", s->ckpt->warning[i].text);
	return r;
}

static void drop_copy(struct sf_session *s)
{
	if (s)
		sf_session_close(s);
	sh("rm -rf '%s'", copy);
}

static bool has_key(const struct sf_session *s, const char *key)
{
	for (uint32_t i = 0; i < s->ckpt->nkeys; i++)
		if (strcmp(s->ckpt->key[i].name, key) == 0)
			return true;
	return false;
}

START_TEST(a_missing_rank_is_named_and_what_it_had_is_missing)
{
	static const struct {
		const char *name, *file;
	} missing[] = { { "local", "model/rank1.pt" },
		        { "torch_legacy", "rank1.pt" },
		        { "olmo_core", "model/rank_1.safetensors" } };
	struct sf_session s;
	char text[SF_ERROR_MAX];

	copy_case(missing[_i].name, "ckpt/step10");
	sh("rm '%s/%s' && cd '%s' && rm -rf optim", copy, missing[_i].file, copy);
	int r = load_copy(&s, "missing-file", text);
	if (_i == 1) { /* of the files alone nobody can say how many there were */
		ck_assert_int_eq(r, 0);
		drop_copy(&s);
		return;
	}
	ck_assert_msg(r == 0 && strstr(text, missing[_i].file + (_i == 2 ? 6 : 0)), "%d %s", r,
	              text);
	ck_assert_uint_gt(s.ckpt->nwarnings, 1);
	drop_copy(&s);
}
END_TEST

START_TEST(a_world_size_that_is_another_is_said)
{
	struct sf_session s;
	char text[SF_ERROR_MAX];

	copy_case("local", "ckpt/step10");
	sh("echo 'world_size: 5' > '%s/metadata.yaml'", copy);
	ck_assert_int_eq(load_copy(&s, "missing-file", text), 0);
	ck_assert_msg(strstr(text, "rank3.pt is missing: 3 of 5"), "%s", text);
	drop_copy(&s);
}
END_TEST

START_TEST(a_file_that_is_damaged_costs_its_rank)
{
	struct sf_session s;
	char text[SF_ERROR_MAX];

	copy_case("local", "ckpt/step10");
	sh("echo x > '%s/model/rank2.pt'", copy);
	ck_assert_int_eq(load_copy(&s, "unreadable-file", text), 0);
	ck_assert_msg(strstr(text, "rank 2"), "%s", text);
	ck_assert(has_key(&s, "model.transformer.wte.weight"));
	ck_assert(has_key(&s, "optim.state.transformer.wte.weight.exp_avg"));
	sf_session_close(&s);
	ck_assert_int_eq(load_copy(&s, "unread-value", text), 0);
	ck_assert_msg(strstr(text, "parts of the optimizer's state are left out"), "%s", text);
	drop_copy(&s);
}
END_TEST

START_TEST(metadata_that_lies_is_an_error)
{
	static const struct {
		const char *from, *to, *says;
	} lies[] = {
		{ "\\[\\[0, 138\\]\\]", "[[0, 139]]", "138" },
		{ "\\[\\[0, 138\\]\\]", "[[7, 145]]", "pass its 138" },
		{ "\\[\\[0, 138\\]\\]", "[[-1, 5]]", "range" },
		{ "\\[\\[0, 138\\]\\]", "[\\\"x\\\"]", "range" },
		{ "\\[23, 6\\]", "[4294967296, 4294967296]", "wte" },
		{ "\\\"tensors\\\"", "\\\"other\\\"", "tensors" },
	};
	struct sf_session s;
	char text[SF_ERROR_MAX];

	copy_case("olmo_core", "ckpt/step10");
	sh("cd '%s' && rm -rf optim && sed -i \"s/%s/%s/\" model/metadata.json", copy,
	   lies[_i].from, lies[_i].to);
	int r = load_copy(&s, "hole", text);
	if (r >= 0) { /* a shape that no bytes can fill is holes */
		ck_assert_uint_gt(s.ckpt->nwarnings, 0);
		drop_copy(&s);
		return;
	}
	ck_assert_msg(strstr(text, lies[_i].says), "%s", text);
	drop_copy(NULL);
}
END_TEST

START_TEST(marks_are_told)
{
	struct sf_session s;
	char text[SF_ERROR_MAX];

	copy_case("core_3.0", "ckpt/step20");
	ck_assert_int_eq(load_copy(&s, "ephemeral", text), 0);
	ck_assert_str_eq(text, "");
	ck_assert_str_eq(s.ckpt->writer, "OLMo-core 3.0.0");
	ck_assert(has_key(&s, "train.rank0"));
	sf_session_close(&s);
	sh("echo '{\"ephemeral\": true}' > '%s/.metadata.json'", copy);
	ck_assert_int_eq(load_copy(&s, "ephemeral", text), 0);
	ck_assert_msg(strstr(text, "deletes it"), "%s", text);
	sf_session_close(&s);
	sh("echo '{' > '%s/.metadata.json'", copy);
	ck_assert_int_eq(load_copy(&s, "unreadable-file", text), 0);
	ck_assert_msg(strstr(text, ".metadata.json"), "%s", text);
	sf_session_close(&s);
	sh("rm '%s/.metadata.json'", copy);
	ck_assert_int_eq(load_copy(&s, "no-mark", text), 0);
	ck_assert_msg(strstr(text, "no .metadata.json"), "%s", text);
	sf_session_close(&s);
	sh("rm '%s/model_and_optim/.metadata'", copy);
	ck_assert_int_eq(load_copy(&s, "no-mark", text), -ENOENT);
	ck_assert_msg(strstr(text, "not committed"), "%s", text);
	drop_copy(NULL);
}
END_TEST

START_TEST(a_rank_is_read_from_a_name)
{
	static const struct {
		const char *name, *dir;
		int64_t rank;
	} names[] = {
		{ "rank0.pt", "", 0 },
		{ "train/rank12.pt", "train/", 12 },
		{ "rank01.pt", "", -1 },
		{ "rank.pt", "", -1 },
		{ "rank1.ptx", "", -1 },
		{ "rank9999999.pt", "", -1 },
		{ "rank12345678.pt", "", -1 },
		{ "train/rank1.pt", "", -1 },
		{ "trainrank1.pt", "train/", -1 },
		{ "rank-1.pt", "", -1 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++)
		ck_assert_msg(olmo_rank_of(names[i].name, names[i].dir) == names[i].rank, "%s",
		              names[i].name);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("olmo");
	TCase *tc = tcase_create("olmo");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, each_layout_has_the_tensors_that_were_saved, 0,
	                    SF_ARRAY_LEN(cases));
	tcase_add_loop_test(tc, a_missing_rank_is_named_and_what_it_had_is_missing, 0, 3);
	tcase_add_test(tc, a_world_size_that_is_another_is_said);
	tcase_add_test(tc, a_file_that_is_damaged_costs_its_rank);
	tcase_add_loop_test(tc, metadata_that_lies_is_an_error, 0, 6);
	tcase_add_test(tc, marks_are_told);
	tcase_add_test(tc, a_rank_is_read_from_a_name);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
