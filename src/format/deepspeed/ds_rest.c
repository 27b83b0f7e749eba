#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_lower.h"

/* Is the first component of the key, behind the prefix, one of these? */
static bool begins_with(const struct sf_value_walk *w, const char *const *names)
{
	const struct sf_walk_step *s = w->step.n ? &w->step.at[0] : NULL;

	for (; s && *names; names++)
		if (s->len == strlen(*names) &&
		    memcmp(w->name.at + s->name - s->len, *names, s->len) == 0)
			return true;
	return false;
}

static int leave_out(void *arg, struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	(void)what;
	(void)v;
	return begins_with(w, arg);
}

/* An enum's number, an object's attributes: without the class they load everywhere. */
static int lower_classes(struct ds_lowering *l, struct sf_torch_part *part)
{
	struct sf_path_elem prefix[2] = { { "zero", 4, SF_PATH_TEXT },
		                          { "zero_stage", 10, SF_PATH_TEXT } };
	const struct sf_torch_lower lower = {
		.b = l->b, .part = part, .prefix = prefix, .nprefix = 2
	};
	const struct sf_pv *stage = ds_get(ds_optim_of(part), "zero_stage"),
			   *scaler = ds_get(ds_optim_of(part), "loss_scaler");
	int r = 0;

	if (stage && stage->kind == SF_PV_CALL && stage->call.args->kind == SF_PV_TUPLE &&
	    stage->call.args->seq.n == 1)
		stage = stage->call.args->seq.at[0];
	if (stage)
		r = sf_torch_lower(&lower, (struct sf_pv *)stage, l->err);
	prefix[1] = (struct sf_path_elem){ "loss_scaler", 11, SF_PATH_TEXT };
	if (scaler && scaler->kind == SF_PV_OBJECT && ds_dict(scaler->call.state))
		scaler = scaler->call.state;
	return r < 0 || !scaler ? r : sf_torch_lower(&lower, (struct sf_pv *)scaler, l->err);
}

static int lower_but(struct ds_lowering *l, struct sf_torch_part *part, struct sf_pv *v,
                     const char *group, const char *const *but)
{
	const struct sf_path_elem prefix = { group, group ? (uint32_t)strlen(group) : 0,
		                             SF_PATH_TEXT };
	const struct sf_torch_lower lower = { .b = l->b,
		                              .part = part,
		                              .prefix = &prefix,
		                              .nprefix = group ? 1 : 0,
		                              .leaf = leave_out,
		                              .arg = (void *)but };

	return v ? sf_torch_lower(&lower, v, l->err) : 0;
}

int ds_lower_rest(struct ds_lowering *l)
{
	/* what is shown as weights, or says how they lie */
	static const char *const model[] = {
		"module",       "buffer_names",        "shared_params",          "optimizer",
		"param_shapes", "frozen_param_shapes", "frozen_param_fragments", NULL
	};
	static const char *const optim[] = { "single_partition_of_fp32_groups",
		                             "fp32_flat_groups",
		                             "fp32_groups",
		                             "base_optimizer_state",
		                             "optimizer_state_dict",
		                             "param_slice_mappings",
		                             "zero_stage",
		                             "loss_scaler",
		                             "ds_version",
		                             "ds_config",
		                             NULL };
	int r = 0;

	if (l->s->nmodel)
		r = lower_but(l, &l->s->model[0], l->s->model[0].archive.root, NULL, model);
	if (r >= 0 && l->s->noptim)
		r = lower_but(l, &l->s->optim[0], (struct sf_pv *)ds_optim_of(&l->s->optim[0]),
		              "zero", optim);
	if (r >= 0 && l->s->noptim)
		r = lower_classes(l, &l->s->optim[0]);
	return r;
}
