#include "config.h"
#include <string.h>
#include "tool/common.h"
#include "cli/expect.h"
#include "tests/lib/sf_test.h"

struct open {
	struct sf_common common;
	struct sf_session s;
};

static void open_data(struct open *o, const char *which)
{
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];
	sf_common_init(&o->common);
	int r = sf_session_open(&o->s, &o->common.session, sf_test_data(path, which), &err);
	ck_assert_msg(r == 0, "%s", err.msg);
}

static void close_data(struct open *o)
{
	sf_session_close(&o->s);
	sf_common_release(&o->common);
}

static int compare(struct open *o, const char *text, struct sf_expect_report *ret,
                   struct sf_error *err)
{
	char path[] = "/tmp/sf-expect-XXXXXX";
	int fd = mkstemp(path);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	*ret = (struct sf_expect_report){ 0 };
	int r = sf_expect_compare(o->s.catalog, path, ret, err);
	unlink(path);
	return r;
}

static void mismatched(const struct open *o, const struct sf_mismatch *m, const char *key,
                       const char *expected, const char *found)
{
	ck_assert_str_eq(o->s.catalog->entry[m->entry].name, key);
	ck_assert_str_eq(m->expected, expected);
	ck_assert_str_eq(m->found, found);
}

START_TEST(keys_types_and_shapes_are_compared)
{
	struct sf_expect_report r;
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	ck_assert_int_eq(compare(&o,
	                         "# a comment\n"
	                         "model.norm.weight\tfloat32\t[13]\n"
	                         "model.tok_embeddings.weight torch.bfloat16 37x13\r\n"
	                         "model.layers.0.attention.wq.weight\tfloat32\n"
	                         "model.layers.0.attention.wk.weight\tbfloat16\t[1, 2, 3]\n"
	                         "model.nothing\tfloat32\n",
	                         &r, NULL),
	                 0);
	ck_assert_uint_eq(r.missing.n, 1);
	ck_assert_str_eq(r.missing.at[0], "model.nothing");
	ck_assert_uint_eq(r.nmismatched, 2);
	mismatched(&o, &r.mismatched[0], "model.layers.0.attention.wq.weight", "float32",
	           "bfloat16");
	mismatched(&o, &r.mismatched[1], "model.layers.0.attention.wk.weight", "[1, 2, 3]",
	           "[6, 13]");
	ck_assert_uint_eq(r.nunexpected, o.s.catalog->n - 4);
	sf_expect_release(&r);
	ck_assert_int_eq(compare(&o,
	                         "train.step\tint64\n"
	                         "model.norm.weight\tint64\t14\n"
	                         "model.output.weight\tbfloat16\tsquare\n",
	                         &r, NULL),
	                 0);
	ck_assert_uint_eq(r.nmismatched, 3);
	mismatched(&o, &r.mismatched[0], "train.step", "int64", "object");
	mismatched(&o, &r.mismatched[1], "model.norm.weight", "int64 [14]", "float32 [13]");
	mismatched(&o, &r.mismatched[2], "model.output.weight", "square", "[37, 13]");
	sf_expect_release(&r);
	close_data(&o);
}
END_TEST

START_TEST(all_keys_of_a_checkpoint_expect_themselves)
{
	struct sf_expect_report r;
	struct open o;
	char *text = NULL;
	size_t len;

	open_data(&o, "dcp/names/ckpt"); /* blanks, tabs, anything */
	FILE *f = open_memstream(&text, &len);
	uint32_t told = 0;
	for (uint32_t i = 0; i < o.s.catalog->n; i++) {
		const struct sf_entry *e = &o.s.catalog->entry[i];
		/* a line cannot say these */
		if (e->len && e->name[0] != '#' && !memchr(e->name, '\n', e->len) &&
		    !memchr(e->name, 0, e->len) && e->name[e->len - 1] != '\r')
			told += fprintf(f, "%s\n", e->name) > 0;
	}
	fclose(f);
	ck_assert_uint_gt(told, 3);
	ck_assert_int_eq(compare(&o, text, &r, NULL), 0);
	ck_assert_uint_eq(r.missing.n, 0);
	ck_assert_uint_eq(r.nmismatched, 0);
	ck_assert_uint_eq(r.nunexpected, o.s.catalog->n - told);
	sf_expect_release(&r);
	free(text);
	close_data(&o);
}
END_TEST

START_TEST(megatrons_modes_are_known_by_name)
{
	ck_assert_ptr_null(sf_strict_by_name("strictest"));
	const struct sf_strict *usual = sf_strict_by_name("assume_ok_unexpected");
	ck_assert(usual->missing && !usual->unexpected && usual->fails);
	ck_assert(!sf_strict_by_name("ignore_all")->fails);
	ck_assert(!sf_strict_by_name("log_all")->fails && sf_strict_by_name("log_all")->unexpected);
	ck_assert(sf_strict_by_name("raise_unexpected")->fails &&
	          !sf_strict_by_name("raise_unexpected")->unexpected);
	ck_assert(sf_strict_by_name("return_all")->fails &&
	          sf_strict_by_name("return_all")->unexpected);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("expect");
	TCase *tc = tcase_create("compare");
	tcase_add_test(tc, keys_types_and_shapes_are_compared);
	tcase_add_test(tc, all_keys_of_a_checkpoint_expect_themselves);
	tcase_add_test(tc, megatrons_modes_are_known_by_name);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
