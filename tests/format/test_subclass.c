#include "config.h"

#include "tests/lib/ckpt_find.h"
#include "tests/lib/test_stores.h"
#include "format/dcp/dcp_subclass.h"
#include "tests/lib/load.h"

/* Tensor items that hold no dense tensor are objects; what metadata says of them is kept. */

static const struct sf_key *key(const struct sf_ckpt *ckpt, const char *name)
{
	uint32_t i = ckpt_find(ckpt, name, strlen(name));

	ck_assert_msg(i != SF_NONE, "no key '%s'", name);
	return &ckpt->key[i];
}

static const struct sf_subclass *subclass(const struct sf_ckpt *ckpt, const char *name)
{
	const struct sf_key *k = key(ckpt, name);

	ck_assert_msg(k->object != SF_NONE, "'%s' is a tensor", name);
	return ckpt->object[k->object].subclass;
}

START_TEST(torchaos_tensors_are_objects_of_their_class)
{
	struct sf_ckpt *ckpt = load_good("torchao-0.18/single/ckpt");
	const struct sf_subclass *s = subclass(ckpt, "model.int8_bf16.weight");

	ck_assert_str_eq(s->name, "torchao.quantization.Int8Tensor");
	ck_assert_int_eq(s->dtype, SF_BFLOAT16);
	ck_assert_uint_eq(s->ndim, 2);
	ck_assert_uint_eq(s->shape[0], 24);
	ck_assert_uint_eq(s->shape[1], 32);
	ck_assert_str_eq(subclass(ckpt, "model.float8.weight")->name,
	                 "torchao.quantization.Float8Tensor");
	ck_assert_str_eq(subclass(ckpt, "optim.AdamW4bit.weight.exp_avg_sq")->name,
	                 "torchao.optim.subclass_4bit.OptimState4bit");
	ck_assert_ptr_null(subclass(ckpt, "step")); /* an object to metadata too */
	ck_assert_uint_ne(key(ckpt, "optim.AdamW8bit.bias.exp_avg")->tensor, SF_NONE);
	ck_assert_uint_eq(ckpt->ntensors, 11);
	ck_assert_uint_eq(ckpt->nobjects, 8);
	ck_assert_ptr_nonnull(load_warning(ckpt, "tensor-subclass",
	                                   "2 tensors are instances of "
	                                   "torchao.quantization.Int8Tensor"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "tensor-subclass",
	                                   "1 tensor is an instance of "
	                                   "torchao.quantization.Float8Tensor"));
	ck_assert_int_eq(load_group(ckpt, "model")->role, SF_ROLE_MODEL);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(shards_of_such_a_tensor_are_a_list)
{
	struct sf_ckpt *ckpt = load_good("torchao-0.18/sharded/ckpt");
	const struct sf_key *k = key(ckpt, "optim.state.w.exp_avg.1");
	const struct sf_subclass *s = subclass(ckpt, "optim.state.w.exp_avg.1");

	ck_assert_uint_eq(s->shape[0], 32); /* the shard's */
	ck_assert_uint_eq(k->npath, 5);
	ck_assert_int_eq(memcmp(k->path[3].s, "exp_avg", 7), 0);
	ck_assert_uint_eq(k->path[4].kind, SF_PATH_LIST);
	ck_assert_int_eq(memcmp(k->path[4].s, "1", 1), 0);
	ck_assert_ptr_nonnull(subclass(ckpt, "optim.state.w.exp_avg.0"));
	ck_assert_uint_eq(ckpt_find(ckpt, "optim.state.w.exp_avg", 21), SF_NONE);
	ck_assert_ptr_nonnull(load_warning(ckpt, "tensor-subclass", "1 in shards"));
	sf_ckpt_free(ckpt);
}
END_TEST

/* dcp/flat with another text in its metadata, or in its data, which may be left out. */
static struct sf_ckpt *load_patched_in(bool in_data, const char *old, const char *new,
                                       bool keep_data)
{
	static const char *const files[] = { ".metadata", "__0_0.distcp", "__1_0.distcp" };
	struct sf_mem_object o[3];
	struct sf_ckpt *ckpt = NULL;
	char path[4096], below[64], msg[SF_ERROR_MAX];
	uint8_t *at[3], *p;
	size_t n = 0;
	int r;

	for (; n < (keep_data ? 3 : 1); n++) {
		snprintf(below, sizeof(below), "dcp/flat/ckpt/%s", files[n]);
		FILE *f = fopen(sf_test_data(path, below), "rb");
		ck_assert_ptr_nonnull(f);
		at[n] = malloc(1 << 16);
		size_t len = fread(at[n], 1, 1 << 16, f);
		fclose(f);
		for (p = at[n]; (n > 0) == in_data &&
		                (p = memmem(p, len - (size_t)(p - at[n]), old, strlen(old)));
		     p++)
			memcpy(p, new, strlen(new));
		o[n] = (struct sf_mem_object){ files[n], at[n], len };
	}
	r = load_mem(o, n, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	while (n > 0)
		free(at[--n]);
	return ckpt; /* it is not read */
}

static struct sf_ckpt *load_patched(const char *old, const char *new, bool keep_data)
{
	return load_patched_in(false, old, new, keep_data);
}

START_TEST(a_dtype_of_the_future_costs_no_other_key)
{
	struct sf_ckpt *ckpt = load_patched("float32", "float99", true);

	ck_assert_str_eq(subclass(ckpt, "plain")->name, dcp_unknown_dtype);
	ck_assert_int_eq(subclass(ckpt, "plain")->dtype, SF_DTYPE_NONE);
	ck_assert_str_eq(subclass(ckpt, "w.1")->name, dcp_unknown_dtype); /* of two shards */
	ck_assert_uint_ne(key(ckpt, "step")->object, SF_NONE);
	ck_assert_ptr_nonnull(load_warning(ckpt, "tensor-subclass", "not known"));
	sf_ckpt_free(ckpt);

	/* without an archive to carry it is left out, and said */
	ckpt = load_patched("float32", "float99", false);
	ck_assert_uint_eq(ckpt_find(ckpt, "plain", 5), SF_NONE);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unknown-dtype", "'plain'"));
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(a_checkpoint_without_its_data_is_of_dense_tensors)
{
	struct sf_ckpt *ckpt = load_patched("float32", "float32", false);

	ck_assert_uint_ne(key(ckpt, "w")->tensor, SF_NONE);
	ck_assert_ptr_null(load_warning(ckpt, "tensor-subclass", ""));
	sf_ckpt_free(ckpt);
}
END_TEST

/* Pickles of a protocol that is to come. */
START_TEST(items_that_cannot_be_looked_at_stay_what_metadata_says)
{
	struct sf_ckpt *ckpt = load_patched_in(true,
	                                       "\x80\x02"
	                                       "ctorch",
	                                       "\x80\x06"
	                                       "ctorch",
	                                       true);

	ck_assert_uint_ne(key(ckpt, "plain")->tensor, SF_NONE);
	ck_assert_uint_ne(key(ckpt, "w")->tensor, SF_NONE);
	ck_assert_ptr_null(load_warning(ckpt, "tensor-subclass", ""));
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("subclass");
	TCase *tc = tcase_create("subclass");

	tcase_add_test(tc, torchaos_tensors_are_objects_of_their_class);
	tcase_add_test(tc, shards_of_such_a_tensor_are_a_list);
	tcase_add_test(tc, a_dtype_of_the_future_costs_no_other_key);
	tcase_add_test(tc, a_checkpoint_without_its_data_is_of_dense_tensors);
	tcase_add_test(tc, items_that_cannot_be_looked_at_stay_what_metadata_says);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
