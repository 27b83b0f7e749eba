#include "config.h"
#include <string.h>
#include "tool/common.h"
#include "base/mem.h"
#include "cli/out_list.h"
#include "tests/lib/sf_test.h"

struct open {
	struct sf_common common;
	struct sf_session s;
	struct sf_out_list list;
};

static void open_data(struct open *o, const char *which)
{
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	*o = (struct open){ .list = { .s = &o->s } };
	sf_common_init(&o->common);
	int r = sf_session_open(&o->s, &o->common.session, sf_test_data(path, which), &err);
	ck_assert_msg(r == 0, "%s", err.msg);
}

static void close_data(struct open *o)
{
	sf_out_release(&o->list);
	sf_session_close(&o->s);
	sf_common_release(&o->common);
}

/* A list that has no memory yet is not copied into: memcpy(NULL, …, 0) is undefined. */
START_TEST(a_file_of_no_keys_is_nothing)
{
	static const enum sf_out_format formats[] = { SF_OUT_PT, SF_OUT_SAFETENSORS, SF_OUT_HF };
	const struct sf_selection none = { .n = 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	ck_assert_int_eq(sf_out_add(&o.list, formats[_i], &none, strdup("x")), 0);
	ck_assert_uint_eq(o.list.n, 1);
	ck_assert_uint_eq(o.list.nentries, 0);
	ck_assert_uint_eq(o.list.file[0].least, 0);
	ck_assert_int_eq(sf_out_check_any(&o.list, &err), -ENOENT);
	ck_assert_int_eq(sf_out_check_claims(&o.list, &err), 0);
	close_data(&o);
}
END_TEST

/* What a file takes at least is the bytes of the tensors that it can hold. */
START_TEST(bytes_of_tensors_are_known_before_a_file_is_made)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t all = 0, held = 0;
	struct open o;

	open_data(&o, "dcp/dtypes/ckpt");
	const struct sf_catalog *c = o.s.catalog;
	for (uint32_t i = 0; i < c->n; i++) {
		uint64_t bytes = c->entry[i].tensor == SF_NONE
		                         ? 0
		                         : c->ckpt->tensor[c->entry[i].tensor].bytes;
		all += bytes;
		held += sf_out_holds(c, SF_OUT_SAFETENSORS, i) ? bytes : 0;
		const struct sf_selection one = { .entry = &i, .n = 1 };
		ck_assert_int_eq(sf_out_add(&o.list, SF_OUT_RAW, &one, strdup("x")), 0);
		ck_assert_uint_eq(o.list.file[i].least, bytes);
	}
	ck_assert_uint_lt(held, all); /* complex128, for one */
	SF_CLEANUP(sf_freep) uint32_t *entry = malloc(c->n * sizeof(*entry));
	for (uint32_t i = 0; i < c->n; i++)
		entry[i] = i;
	const struct sf_selection every = { .entry = entry, .n = c->n };
	ck_assert_int_eq(sf_out_add(&o.list, SF_OUT_PT, &every, strdup("x")), 0);
	ck_assert_int_eq(sf_out_add(&o.list, SF_OUT_SAFETENSORS, &every, strdup("x")), 0);
	ck_assert_uint_eq(o.list.file[c->n].least, all);
	ck_assert_uint_eq(o.list.file[c->n + 1].least, held);
	ck_assert_int_eq(sf_out_check_any(&o.list, &err), 0);
	close_data(&o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("out_list");
	TCase *tc = tcase_create("lists");
	tcase_add_loop_test(tc, a_file_of_no_keys_is_nothing, 0, 3);
	tcase_add_test(tc, bytes_of_tensors_are_known_before_a_file_is_made);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
