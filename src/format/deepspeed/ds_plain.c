#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_lower.h"
#include "format/torch/torch_params.h"

/*
 * Without ZeRO the optimizer's state is the framework's own, in the model states, its parameters by number;
 * their names are found by their shapes, or not at all.
 */

#define GROUPS_MAX 1024
#define PARAMS_MAX (1u << 24)

struct plain {
	struct ds_lowering *l;
	struct sf_pv *optimizer;
	size_t end[GROUPS_MAX], ngroups, n; /* numbers */
	struct sf_param_shape *id, *cand;
	uint32_t *at;                  /* by number: cand */
	const struct ds_entry **entry; /* by cand */
	size_t ncand;
	struct sf_arena arena;
};

static void count_params(struct plain *p)
{
	const struct sf_pv *groups = ds_get(p->optimizer, "param_groups"), *params;
	uint64_t id, n = 0;

	if (!groups || groups->kind != SF_PV_LIST || groups->seq.n > GROUPS_MAX)
		return;
	for (size_t g = 0; g < groups->seq.n; g++) {
		params = ds_get(groups->seq.at[g], "params");
		if (!params || params->kind != SF_PV_LIST || params->seq.n > PARAMS_MAX)
			return;
		for (size_t i = 0; i < params->seq.n; i++)
			if (!sf_pv_u64(params->seq.at[i], &id) || id != n++)
				return;
		p->end[g] = n;
	}
	p->ngroups = groups->seq.n;
	p->n = n;
}

static int keep_shape(struct plain *p, const struct sf_torch_tensor *t, struct sf_param_shape *ret)
{
	uint64_t *shape = sf_arena_alloc(&p->arena, t->ndim * sizeof(*shape));

	if (!shape)
		return -ENOMEM;
	memcpy(shape, t->shape, t->ndim * sizeof(*shape));
	*ret = (struct sf_param_shape){ shape, t->ndim, true };
	return 0;
}

/* The shape of the state with the most elements. */
static int find_state(struct plain *p, size_t i, const struct sf_pv *state)
{
	uint64_t most = 0;
	int r = 0;

	state = ds_dict(state);
	for (size_t k = 0; state && k + 1 < state->seq.n && r >= 0; k += 2) {
		struct sf_torch_tensor t;
		uint64_t numel = 1;
		if (sf_torch_tensor_from_pv(state->seq.at[k + 1], &t, NULL) != 1 || !t.ndim)
			continue;
		for (unsigned d = 0; d < t.ndim; d++)
			if (!sf_mul(numel, t.shape[d], &numel))
				numel = UINT64_MAX;
		if (numel <= most)
			continue;
		most = numel;
		r = keep_shape(p, &t, &p->id[i]);
	}
	return r;
}

/* Weights that are no buffers; one that has several names once. */
static int find_candidates(struct plain *p)
{
	const struct ds_table *t = p->l->t;
	uint32_t most = 0, storage;
	SF_FREE bool *seen = NULL;
	int r = 0;

	for (size_t i = 0; i < t->at.n; i++)
		if (t->at.at[i].weight != SF_NONE)
			most = SF_MAX(most, t->at.at[i].weight);
	seen = calloc((size_t)most + 1, sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < t->at.n && r >= 0; i++) {
		const struct ds_entry *e = &t->at.at[i];
		struct sf_torch_tensor s;
		if (e->buffer || !e->module || e->weight == SF_NONE ||
		    sf_torch_tensor_from_pv(e->module, &s, NULL) != 1 ||
		    !sf_dtype_info((enum sf_dtype)s.dtype)->is_float)
			continue;
		storage = sf_ckpt_builder_storage(p->l->b, e->weight);
		if (seen[storage])
			continue;
		seen[storage] = true;
		p->entry[p->ncand] = e;
		r = keep_shape(p, &s, &p->cand[p->ncand++]);
	}
	return r;
}

static int find_names(struct plain *p, bool *ret)
{
	const struct sf_pv *state = ds_dict(ds_get(p->optimizer, "state"));
	const size_t n = p->l->t->at.n;
	uint64_t id;
	int r;

	*ret = false;
	count_params(p);
	if (!p->n || p->n > n)
		return 0;
	p->id = calloc(p->n, sizeof(*p->id));
	p->at = calloc(p->n, sizeof(*p->at));
	p->cand = calloc(n, sizeof(*p->cand));
	p->entry = calloc(n, sizeof(*p->entry));
	if (!p->id || !p->at || !p->cand || !p->entry)
		return -ENOMEM;
	r = find_candidates(p);
	for (size_t i = 0; state && i + 1 < state->seq.n && r >= 0; i += 2)
		if (sf_pv_u64(state->seq.at[i], &id) && id < p->n)
			r = find_state(p, id, state->seq.at[i + 1]);
	*ret = r >= 0 &&
	       sf_torch_match_params(p->cand, p->ncand, p->id, p->n, p->end, p->ngroups, p->at);
	return r;
}

static int lower_states(struct plain *p, struct sf_torch_part *part)
{
	const struct sf_pv *state = ds_dict(ds_get(p->optimizer, "state"));
	struct ds_lowering *l = p->l;
	uint64_t id;
	int r = 0;

	for (size_t i = 0; state && i + 1 < state->seq.n && r >= 0; i += 2) {
		struct sf_path_elem prefix[3] = { { "optim", 5, SF_PATH_TEXT },
			                          { "state", 5, SF_PATH_TEXT },
			                          { NULL, 0, SF_PATH_TEXT } };
		const struct sf_torch_lower lower = {
			.b = l->b, .part = part, .prefix = prefix, .nprefix = 3, .ties = &l->ties
		};
		if (!sf_pv_u64(state->seq.at[i], &id) || id >= p->n)
			continue;
		prefix[2].s = p->entry[p->at[id]]->name;
		prefix[2].len = p->entry[p->at[id]]->len;
		r = sf_torch_lower(&lower, state->seq.at[i + 1], l->err);
	}
	return r;
}

/* A group's numbers become names. */
static int lower_groups(struct plain *p, struct sf_torch_part *part)
{
	struct sf_pv *groups = (struct sf_pv *)ds_get(p->optimizer, "param_groups");
	struct ds_params *params = &p->l->s->params;
	int r = 0;

	for (size_t i = 0, g = 0; i < p->n && r >= 0; i++) {
		const struct ds_entry *e = p->entry[p->at[i]];
		while (i >= p->end[g])
			g++;
		r = ds_params_push(
			params,
			(struct ds_param){ .name = e->name, .len = e->len, .group = (uint32_t)g });
	}
	return r < 0 ? r : ds_lower_groups(p->l, part, groups);
}

int ds_lower_plain_optim(struct ds_lowering *l)
{
	struct sf_torch_part *part = &l->s->model[0];
	struct plain p = { .l = l,
		           .optimizer = (struct sf_pv *)ds_get(part->archive.root, "optimizer") };
	const struct sf_path_elem prefix = { "optim", 5, SF_PATH_TEXT };
	const struct sf_torch_lower lower = {
		.b = l->b, .part = part, .prefix = &prefix, .nprefix = 1, .ties = &l->ties
	};
	bool named = false;
	int r;

	if (!p.optimizer)
		return 0;
	r = find_names(&p, &named);
	if (r >= 0 && named)
		r = lower_states(&p, part);
	if (r >= 0 && named)
		r = lower_groups(&p, part);
	if (r == -ENOMEM)
		sf_fail(l->err, r, "no memory for %zu parameters", p.n);
	if (r >= 0 && !named)
		r = sf_torch_lower(&lower, p.optimizer, l->err);
	free(p.id);
	free(p.at);
	free(p.cand);
	free(p.entry);
	sf_arena_release(&p.arena);
	return r;
}
