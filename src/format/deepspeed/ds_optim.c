#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_lower.h"

/* ---- states ---- */

static bool is_moment(const struct ds_slice *s, const char *name)
{
	for (unsigned m = 1; m < s->nmoments; m++)
		if (strcmp(s->moment[m].name, name) == 0)
			return true;
	return false;
}

/* What an optimizer has once for a flat tensor (step), each parameter in it has. */
static int lower_scalars(struct ds_lowering *l, const struct ds_entry *e, const struct ds_param *p,
                         struct sf_torch_ties *ties)
{
	struct sf_torch_part *part = &l->s->optim[p->rank];
	const struct sf_pv *state = ds_dict(ds_state_of(l->s, part, p->sub));
	struct sf_torch_tensor t;
	int r = 0;

	for (size_t i = 0; state && i + 1 < state->seq.n && r >= 0; i += 2) {
		const struct sf_pv *name = state->seq.at[i];
		struct sf_pv *v = state->seq.at[i + 1];
		if (name->kind != SF_PV_STR || is_moment(l->s, name->str.at))
			continue;
		r = ds_key(l, "optim", e, name->str.at);
		if (r < 0)
			break;
		if (sf_torch_tensor_from_pv(v, &t, NULL) == 1)
			r = sf_torch_lower_tensor(l->b, part, (const char *)l->name.at, l->name.len,
			                          &t, &ties[p->rank], NULL, l->err);
		else
			r = sf_torch_lower_value(l->b, part, (const char *)l->name.at, l->name.len,
			                         v, l->err);
		if (r >= 0)
			r = ds_set_path(l);
	}
	return r;
}

static int lower_states(struct ds_lowering *l, struct sf_torch_ties *ties)
{
	int r = 0;

	for (size_t i = 0; i < l->t->at.n && r >= 0; i++) {
		const struct ds_entry *e = &l->t->at.at[i];
		if (e->trained == SF_NONE)
			continue;
		const struct ds_param *p = &l->s->params.at[e->trained];
		for (unsigned m = 1; m < l->s->nmoments && r >= 0; m++) {
			r = ds_key(l, "optim", e, l->s->moment[m].name);
			if (r >= 0)
				r = ds_lower_moment(l, p, m);
		}
		if (r >= 0 && l->s->noptim)
			r = lower_scalars(l, e, p, ties);
	}
	return r;
}

/* ---- parameter groups ---- */

/* Numbers of flat tensors: the names of what is in them come instead. */
static int skip_params(void *arg, struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	const struct sf_walk_step *step = w->step.n > 1 ? &w->step.at[1] : NULL;

	(void)arg;
	(void)what;
	(void)v;
	return step && step->len == 6 && memcmp(w->name.at + step->name - 6, "params", 6) == 0;
}

static int lower_names(struct ds_lowering *l, struct sf_torch_part *part, uint32_t group)
{
	char g[16], at[16], key[80];
	struct sf_path_elem path[5] = { { "optim", 5, SF_PATH_TEXT },
		                        { "param_groups", 12, SF_PATH_TEXT },
		                        { g, 0, SF_PATH_LIST },
		                        { "params", 6, SF_PATH_TEXT },
		                        { at, 0, SF_PATH_LIST } };
	uint32_t n = 0;
	int r = 0;

	path[2].len = (uint32_t)snprintf(g, sizeof(g), "%" PRIu32, group);
	for (size_t i = 0; i < l->s->params.n && r >= 0; i++) {
		const struct ds_param *p = &l->s->params.at[i];
		struct sf_pv v = { .kind = SF_PV_STR };
		int len;
		if (p->group != group)
			continue;
		path[4].len = (uint32_t)snprintf(at, sizeof(at), "%" PRIu32, n++);
		len = snprintf(key, sizeof(key), "optim.param_groups.%s.params.%s", g, at);
		v.str.at = p->name;
		v.str.len = p->len;
		r = sf_torch_lower_value(l->b, part, key, (size_t)len, &v, l->err);
		if (r >= 0)
			r = sf_ckpt_builder_path(l->b, key, (size_t)len, path, 5, l->err);
	}
	return r;
}

int ds_lower_groups(struct ds_lowering *l, struct sf_torch_part *part, struct sf_pv *groups)
{
	static const struct sf_path_elem prefix[2] = { { "optim", 5, SF_PATH_TEXT },
		                                       { "param_groups", 12, SF_PATH_TEXT } };
	const struct sf_torch_lower lower = {
		.b = l->b, .part = part, .prefix = prefix, .nprefix = 2, .leaf = skip_params
	};
	int r = sf_torch_lower(&lower, groups, l->err);

	for (size_t g = 0; g < groups->seq.n && r >= 0; g++)
		r = lower_names(l, part, (uint32_t)g);
	return r;
}

int ds_lower_optim(struct ds_lowering *l)
{
	struct sf_torch_ties *ties = calloc(l->s->noptim + 1, sizeof(*ties)); /* by rank */
	struct sf_pv *groups = (struct sf_pv *)ds_param_groups(l->s);
	int r;

	if (!ties)
		return sf_fail(l->err, -ENOMEM, "no memory for %zu ranks", l->s->noptim);
	r = lower_states(l, ties);
	/* of several model-parallel ranks the first's: they are the same but for the numbers */
	if (r >= 0 && groups && l->s->mp == 0 && !l->t->elsewhere)
		r = ds_lower_groups(l, &l->s->optim[0], groups);
	for (size_t i = 0; i < l->s->noptim; i++)
		sf_torch_ties_release(&ties[i]);
	free(ties);
	return r;
}
