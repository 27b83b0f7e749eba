#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_places.h"
#include "format/deepspeed/ds_slice.h"

/* ---- values ---- */

const struct sf_pv *ds_dict(const struct sf_pv *v)
{
	if (v && (v->kind == SF_PV_CALL || v->kind == SF_PV_OBJECT))
		v = v->call.items;
	return v && v->kind == SF_PV_DICT ? v : NULL;
}

const struct sf_pv *ds_get(const struct sf_pv *v, const char *key)
{
	v = v ? sf_pv_get(v, key) : NULL;
	return v && v->kind != SF_PV_NONE ? v : NULL;
}

const struct sf_pv *ds_get_int(const struct sf_pv *v, uint64_t key)
{
	uint64_t at;

	v = ds_dict(v);
	for (size_t i = 0; v && i + 1 < v->seq.n; i += 2)
		if (sf_pv_u64(v->seq.at[i], &at) && at == key)
			return v->seq.at[i + 1];
	return NULL;
}

int ds_shape(const struct sf_pv *v, uint64_t shape[SF_DIMS_MAX], uint32_t *ret_ndim,
             uint64_t *ret_numel)
{
	uint64_t numel = 1;

	if (v->kind == SF_PV_CALL && sf_pv_is_global(v->call.callable, "torch", "Size") &&
	    v->call.args->kind == SF_PV_TUPLE && v->call.args->seq.n == 1)
		v = v->call.args->seq.at[0];
	if ((v->kind != SF_PV_TUPLE && v->kind != SF_PV_LIST) || v->seq.n > SF_DIMS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < v->seq.n; i++)
		if (!sf_pv_u64(v->seq.at[i], &shape[i]) || !sf_mul(numel, shape[i], &numel) ||
		    numel > UINT64_MAX / 32)
			return -EBADMSG;
	*ret_ndim = (uint32_t)v->seq.n;
	*ret_numel = numel;
	return 0;
}

int ds_shapes(struct sf_arena *arena, const struct sf_pv *dict, uint32_t group,
              struct ds_params *ret, struct sf_error *err)
{
	uint64_t shape[SF_DIMS_MAX], *kept;

	dict = ds_dict(dict);
	for (size_t i = 0; dict && i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *key = dict->seq.at[i];
		struct ds_param p = { .group = group, .fp32 = SF_NONE, .module = SF_NONE };
		if (key->kind != SF_PV_STR || key->str.len > 60000 ||
		    ds_shape(dict->seq.at[i + 1], shape, &p.ndim, &p.numel) < 0)
			return sf_fail(err, -EBADMSG, "parameter %zu has no name or no shape",
			               i / 2);
		kept = sf_arena_alloc(arena, p.ndim * sizeof(*kept));
		if (!kept)
			return sf_fail(err, -ENOMEM, "no memory for %zu parameters", ret->n);
		memcpy(kept, shape, p.ndim * sizeof(*kept));
		p.name = key->str.at;
		p.len = (uint32_t)key->str.len;
		p.shape = kept;
		if (ds_params_push(ret, p) < 0)
			return sf_fail(err, -ENOMEM, "no memory for %zu parameters", ret->n);
	}
	return 0;
}

const struct sf_pv *ds_optim_of(const struct sf_torch_part *part)
{
	return ds_get(part->archive.root, "optimizer_state_dict");
}

/* The optimizer that ZeRO wraps. */
static const struct sf_pv *base_of(const struct ds_slice *s, const struct sf_torch_part *part)
{
	return ds_get(ds_optim_of(part),
	              s->stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
}

const struct sf_pv *ds_state_of(const struct ds_slice *s, const struct sf_torch_part *part,
                                uint32_t sub)
{
	const struct sf_pv *base = base_of(s, part), *groups, *params;
	uint64_t id = sub;

	if (base && base->kind == SF_PV_LIST) /* elastic: without the optimizer's own numbers */
		return sub < base->seq.n ? base->seq.at[sub] : NULL;
	groups = ds_get(base, "param_groups");
	if (s->stage < 3 && groups && groups->kind == SF_PV_LIST && sub < groups->seq.n) {
		params = ds_get(groups->seq.at[sub], "params");
		if (params && params->kind == SF_PV_LIST && params->seq.n == 1)
			sf_pv_u64(params->seq.at[0], &id);
	}
	return ds_get_int(ds_get(base, "state"), id);
}

const struct sf_pv *ds_param_groups(const struct ds_slice *s)
{
	const struct sf_pv *g = s->noptim ? ds_get(base_of(s, &s->optim[0]), "param_groups") : NULL;

	return g && g->kind == SF_PV_LIST ? g : NULL;
}

/* ---- files ---- */

void ds_slice_release(struct ds_slice *s)
{
	for (unsigned m = 0; m < s->nmoments; m++) {
		for (uint32_t i = 0; i < s->nspaces && s->moment[m].space; i++)
			ds_space_release(&s->moment[m].space[i]);
		free(s->moment[m].space);
	}
	ds_params_release(&s->params);
	ds_params_release(&s->frozen);
	if (s->model)
		sf_torch_parts_release(s->model, s->nmodel + s->noptim);
	free(s->model);
	sf_arena_release(&s->arena);
	*s = (struct ds_slice){ 0 };
}

/* Ranks are 0, 1, … without a gap. */
static int check_ranks(const struct ds_file *at, size_t n, struct sf_error *err)
{
	for (size_t i = 0; i < n; i++)
		if (at[i].name.rank != i)
			return sf_fail(
				err, -ENOENT,
				"not complete: the file of rank %zu is missing (%s is there)", i,
				at[i].file->name);
	return 0;
}

int ds_slice_open(struct ds_slice *s, struct sf_store *store, const struct ds_set *set, uint32_t mp,
                  struct sf_error *err)
{
	size_t nzero, nplain, noptim;
	const struct ds_file *zero = ds_set_of(set, DS_ZERO_MODEL, mp, &nzero),
			     *plain = ds_set_of(set, DS_MODEL, mp, &nplain),
			     *optim = ds_set_of(set, DS_OPTIM, mp, &noptim),
			     *model = nzero ? zero : plain;
	int r = check_ranks(optim, noptim, err);

	s->mp = mp;
	s->nmodel = nzero ? nzero : nplain;
	s->empty = nzero > 0;
	s->noptim = noptim;
	if (r >= 0 && nzero)
		r = check_ranks(zero, nzero, err);
	if (r < 0)
		return r;
	if (nzero && noptim && nzero != noptim)
		return sf_fail(err, -ENOENT,
		               "not complete: model states of %zu ranks, partitions of %zu (%s …)",
		               nzero, noptim, optim[0].file->name);
	if (nplain && !nzero)
		s->nmodel = 1;
	s->model = sf_alloc_array(s->nmodel + noptim, sizeof(*s->model));
	if (!s->model)
		return sf_fail(err, -ENOMEM, "no memory for the files of %zu ranks", noptim);
	s->optim = s->model + s->nmodel;
	for (size_t i = 0; i < s->nmodel; i++)
		s->model[i] = (struct sf_torch_part){ .file = model[i].file };
	for (size_t i = 0; i < noptim; i++)
		s->optim[i] = (struct sf_torch_part){ .file = optim[i].file };
	r = sf_torch_parts_open(store, s->model, s->nmodel + noptim, 0, err);
	for (size_t i = 0; i < s->nmodel + noptim && r >= 0; i++)
		if (s->model[i].r < 0)
			r = sf_fail(err, s->model[i].r, "%s", s->model[i].err.msg);
	return r;
}

/* ---- what they say ---- */

/* Before 0.7 an int, then an enum made of one; BF16_Optimizer, which works as stage 1, says none. */
static int stage_of(struct ds_slice *s, struct sf_error *err)
{
	const struct sf_pv *o = s->noptim ? ds_optim_of(&s->optim[0]) : NULL,
			   *v = ds_get(o, "zero_stage");
	uint64_t stage = 1;

	s->stage = s->noptim ? 1 : 0;
	if (!s->noptim)
		return 0;
	if (!o)
		return sf_fail(err, -EBADMSG, "'%s': it has no optimizer_state_dict",
		               s->optim[0].file->name);
	if (v && v->kind == SF_PV_CALL && v->call.args->kind == SF_PV_TUPLE &&
	    v->call.args->seq.n == 1)
		v = v->call.args->seq.at[0];
	if (v && (!sf_pv_u64(v, &stage) || stage > 3))
		return sf_fail(err, -ENOTSUP, "'%s': an unknown stage of ZeRO",
		               s->optim[0].file->name);
	s->stage = stage ? (unsigned)stage : 1;
	return 0;
}

uint64_t ds_partitions_of(const struct sf_torch_part *part)
{
	const struct sf_pv *v = ds_get(ds_optim_of(part), "partition_count");
	uint64_t most = 0, n;

	if (v && sf_pv_u64(v, &n))
		return n;
	for (size_t i = 0; v && v->kind == SF_PV_LIST && i < v->seq.n; i++)
		if (sf_pv_u64(v->seq.at[i], &n))
			most = SF_MAX(most, n);
	return most;
}

static int check_world(struct ds_slice *s, struct sf_error *err)
{
	s->world = (uint32_t)s->noptim;
	for (size_t i = 0; i < s->noptim; i++) {
		const uint64_t n = ds_partitions_of(&s->optim[i]);
		if (n && n != s->noptim)
			return sf_fail(err, n > s->noptim ? -ENOENT : -EBADMSG,
			               "%s'%s' is of %" PRIu64
			               " data-parallel ranks, and the files of %zu are there",
			               n > s->noptim ? "not complete: " : "",
			               s->optim[i].file->name, n, s->noptim);
	}
	if (s->stage == 3 && s->nmodel && s->nmodel != s->noptim)
		return sf_fail(err, -ENOENT,
		               "not complete: model states of %zu of %zu ranks are there",
		               s->nmodel, s->noptim);
	return 0;
}

static int read_frozen(struct ds_slice *s, const struct sf_pv *root, struct sf_error *err)
{
	return ds_shapes(&s->arena, ds_get(root, "frozen_param_shapes"), 0, &s->frozen, err);
}

/* A dict for each group; up to 0.5.3 one of all, which ds_places parts. */
static int read_shapes(struct ds_slice *s, const struct sf_pv *root, bool *ret_one,
                       struct sf_error *err)
{
	const struct sf_pv *v = ds_get(root, "param_shapes");
	int r = 0;

	*ret_one = v && v->kind != SF_PV_LIST;
	if (*ret_one)
		return ds_shapes(&s->arena, v, 0, &s->params, err);
	for (size_t i = 0; v && i < v->seq.n && r >= 0; i++)
		r = ds_shapes(&s->arena, v->seq.at[i], (uint32_t)i, &s->params, err);
	return r;
}

int ds_slice_read(struct ds_slice *s, struct sf_error *err)
{
	const struct sf_pv *root = s->nmodel ? s->model[0].archive.root : NULL;
	bool one = false;
	int r = stage_of(s, err);

	/* all of them were read, though another may have all that one has */
	for (size_t i = 0; i < s->nmodel + s->noptim && r >= 0; i++)
		r = sf_torch_part_place(&s->model[i], s->b, err);
	if (r >= 0)
		r = check_world(s, err);
	if (r >= 0 && root)
		r = read_shapes(s, root, &one, err);
	if (r >= 0 && root)
		r = read_frozen(s, root, err);
	if (r < 0 && root)
		return sf_fail_ctx(err, r, "'%s'", s->model[0].file->name);
	if (r >= 0 && !s->noptim && s->params.n && !s->universal)
		return sf_fail(err, -ENOENT,
		               "not complete: '%s' is of ZeRO, and no file of "
		               "partitions (*_optim_states.pt) is there",
		               s->model[0].file->name);
	if (r >= 0 && s->noptim)
		r = ds_find_moments(s, err);
	if (r >= 0 && s->noptim)
		r = ds_find_places(s, one, err);
	return r;
}
