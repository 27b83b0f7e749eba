#include "config.h"

#include "catalog/view_wanted.h"

void sf_view_options_init(struct sf_view_options *o)
{
	*o = (struct sf_view_options){
		.dtype = SF_DTYPE_NONE,
		.npy_bf16 = SF_NPY_VOID,
		.objects = SF_OBJECTS_KEEP,
		.hf_name = "model",
		.hf_strip = true,
		.max_shard_size = UINT64_C(50000000000), /* transformers' default, 50GB */
	};
}

int sf_views_check(const struct sf_view_options *o, struct sf_error *err)
{
	static const char *const known[] = { "checkpoint", "groups", "hf",          "state",
		                             "npy",        "pt",     "safetensors", "shards" };
	size_t k;

	for (size_t i = 0; i < o->views.n; i++) {
		for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strcmp(o->views.at[i], known[k]) == 0)
				break;
		if (k == sizeof(known) / sizeof(known[0]))
			return sf_fail(
				err, -EINVAL,
				"views: '%s' is not one of checkpoint, groups, hf, state, npy, "
				"pt, safetensors, shards",
				o->views.at[i]);
	}
	return 0;
}
