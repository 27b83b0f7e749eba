#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/run_dir.h"
#include "format/torch/torch_priv.h"

/* root[a][b]…; NULL: there is none. */
static const struct sf_pv *down(const struct sf_pv *v, const char *const *key)
{
	for (; v && *key; key++)
		v = sf_pv_get(v, *key);
	return v;
}

static void put_version(const char *who, const struct sf_pv *v, char to[64])
{
	if (v && v->kind == SF_PV_STR && v->str.len < 40)
		snprintf(to, 64, "%s %.*s", who, (int)v->str.len, v->str.at);
}

static bool put_step(const struct sf_pv *v, int64_t *ret)
{
	uint64_t step;

	if (!v || !sf_pv_u64(v, &step) || step > INT64_MAX)
		return false;
	*ret = (int64_t)step;
	return true;
}

/* "step100.pt", "ep0-ba2-rank0.pt": what stands before the last dot, or the rank. */
static int64_t step_of(const char *source)
{
	const char *base = strrchr(source, '/');
	size_t len;
	int64_t step;

	base = base ? base + 1 : source;
	len = strcspn(base, ".");
	step = sf_run_dir_step(base, len);
	for (size_t i = 0; step < 0 && i + 5 < len; i++)
		if (strncmp(base + i, "-rank", 5) == 0)
			step = sf_run_dir_step(base, i);
	return step >= 0 ? step : sf_format_step(source);
}

/* Source: Lightning-AI/pytorch-lightning 2.5 trainer/connectors/checkpoint_connector.py
 * (dump_checkpoint); mosaicml/composer 0.32 core/state.py, utils/checkpoint.py. */
void torch_facts_of(const struct sf_pv *root, const char *source, struct torch_facts *ret)
{
	static const char *const composer[] = { "state", "metadata", "composer_env_info",
		                                "composer_version", NULL },
				 *const batch[] = { "state", "timestamp", "Timestamp", "batch",
		                                    NULL };

	*ret = (struct torch_facts){ .step = -1 };
	put_version("composer", down(root, composer), ret->writer);
	put_version("lightning", sf_pv_get(root, "pytorch-lightning_version"), ret->writer);
	if (!put_step(down(root, batch), &ret->step) &&
	    !put_step(sf_pv_get(root, "global_step"), &ret->step))
		ret->step = step_of(source);
}
