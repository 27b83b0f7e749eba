#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/catalog_slice.h"
#include "catalog/view_wanted.h"

void sf_view_options_init(struct sf_view_options *o)
{
	*o = (struct sf_view_options){
		.role = SF_ROLE_ANY,
		.dtype = SF_DTYPE_NONE,
		.npy_bf16 = SF_NPY_VOID,
		.objects = SF_OBJECTS_KEEP,
		.hf_name = "model",
		.hf_strip = true,
		.max_shard_size = UINT64_C(50000000000), /* transformers' default, 50GB */
	};
}

int sf_view_cast_parse(const char *word, enum sf_dtype *ret, struct sf_error *err)
{
	static const struct {
		const char *name;
		enum sf_dtype dtype;
	} casts[] = {
		{ "bf16", SF_BFLOAT16 },   { "bfloat16", SF_BFLOAT16 }, { "fp16", SF_FLOAT16 },
		{ "float16", SF_FLOAT16 }, { "fp32", SF_FLOAT32 },      { "float32", SF_FLOAT32 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(casts); i++)
		if (strcmp(word, casts[i].name) == 0) {
			*ret = casts[i].dtype;
			return 0;
		}
	return sf_fail(err, -EINVAL, "'%s' is not one of bf16, fp16, fp32", word);
}

int sf_view_slice_parse(const char *word, uint32_t *ret, struct sf_error *err)
{
	const char *digits = strncmp(word, "tp:", 3) == 0 ? word + 3 : "";
	const size_t len = strlen(digits);
	const unsigned long n = strtoul(len <= 4 ? digits : "0", NULL, 10);

	if (strspn(digits, "0123456789") != len || !n || n > SF_SLICE_RANKS_MAX)
		return sf_fail(err, -EINVAL, "'%s' is not tp:N, N from 1 to %d", word,
		               SF_SLICE_RANKS_MAX);
	*ret = (uint32_t)n;
	return 0;
}

int sf_view_role_parse(const char *word, int *ret, struct sf_error *err)
{
	for (int i = 0; i < SF_NROLES; i++)
		if (strcmp(word, sf_role_names[i]) == 0) {
			*ret = i;
			return 0;
		}
	return sf_fail(err, -EINVAL, "'%s' is not one of model, optim, other", word);
}

int sf_roles_check(const struct sf_view_options *o, struct sf_error *err)
{
	if (!o->model_only || o->role == SF_ROLE_ANY || o->role == SF_ROLE_MODEL)
		return 0;
	return sf_fail(err, -EINVAL, "--model-only and --role %s exclude each other",
	               sf_role_names[o->role]);
}

static bool is_view(const char *name)
{
	const size_t len = strlen(name);

	for (const char *at = SF_VIEW_NAMES("|"); at; at = strchr(at, '|')) {
		at += *at == '|';
		if (strcspn(at, "|") == len && memcmp(at, name, len) == 0)
			return true;
	}
	return false;
}

int sf_views_check(const struct sf_view_options *o, struct sf_error *err)
{
	for (size_t i = 0; i < o->views.n; i++)
		if (!is_view(o->views.at[i]))
			return sf_fail(err, -EINVAL,
			               "views: '%s' is not one of " SF_VIEW_NAMES(", "),
			               o->views.at[i]);
	return 0;
}
