#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/deepspeed/ds_lower.h"

#define KEY_MAX (64u << 10)

void ds_lowering_release(struct ds_lowering *l)
{
	sf_torch_ties_release(&l->ties);
	sf_buf_release(&l->name);
}

/* ---- names ---- */

static void add_elem(struct ds_lowering *l, const char *s, size_t len)
{
	l->path[l->npath++] = (struct sf_path_elem){ s, (uint32_t)len, SF_PATH_TEXT };
}

int ds_key(struct ds_lowering *l, const char *group, const struct ds_entry *e, const char *more)
{
	l->npath = 0;
	l->name.limit = KEY_MAX;
	if (l->t->elsewhere && l->t->elsewhere[e - l->t->at.at]) {
		snprintf(l->rank, sizeof(l->rank), "mp_rank_%02" PRIu32, l->s->mp);
		add_elem(l, "rank", 4);
		add_elem(l, l->rank, strlen(l->rank));
		l->several++;
	}
	add_elem(l, group, strlen(group));
	if (more)
		add_elem(l, "state", 5);
	add_elem(l, e->name, e->len);
	if (more)
		add_elem(l, more, strlen(more));
	sf_buf_reset(&l->name);
	for (size_t i = 0; i < l->npath; i++) {
		sf_buf_str(&l->name, i ? "." : "");
		sf_buf_add(&l->name, l->path[i].s, l->path[i].len);
	}
	sf_buf_cstr(&l->name);
	return sf_buf_check(&l->name) < 0
	               ? sf_fail(l->err, sf_buf_check(&l->name), "a key of over %u bytes", KEY_MAX)
	               : 0;
}

int ds_set_path(struct ds_lowering *l)
{
	return sf_ckpt_builder_path(l->b, (const char *)l->name.at, l->name.len, l->path, l->npath,
	                            l->err);
}

static int add_tensor(struct ds_lowering *l, enum sf_dtype dtype, const uint64_t *shape,
                      unsigned ndim, uint32_t *ret)
{
	int r = sf_ckpt_builder_tensor(l->b, (const char *)l->name.at, l->name.len, dtype, shape,
	                               ndim, ret, l->err);

	return r < 0 ? r : ds_set_path(l);
}

static int warn(struct ds_lowering *l, const char *code, const char *why)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = KEY_MAX };

	sf_escape_text(&name, (const char *)l->name.at, SF_MIN(l->name.len, 120u));
	return sf_ckpt_builder_warn(l->b, NULL, code, "'%s' %s", sf_buf_cstr(&name), why);
}

/* ---- where a parameter lies ---- */

/* Its parts of every rank's vector, or of its group's. */
static int trained_chunks(struct ds_lowering *l, const struct ds_param *p, unsigned moment,
                          uint32_t tensor)
{
	const struct ds_space *space = l->s->moment[moment].space;
	uint32_t chunks = 0;
	int r = 0;

	if (l->s->stage < 3)
		return ds_space_chunks(&space[p->space], p->off, p->numel, 0, l->b, tensor,
		                       p->shape, &chunks, l->err);
	for (uint32_t i = 0; i < l->s->world && r >= 0; i++) {
		uint64_t at = i * p->each; /* below numel + world * each */
		if (at >= p->numel)
			break;
		r = ds_space_chunks(&space[i], p->off, SF_MIN(p->each, p->numel - at), at, l->b,
		                    tensor, p->shape, &chunks, l->err);
	}
	return r;
}

/* The value under parameter @i of a dict in the order of the parameters; by name where it is not. */
static struct sf_pv *at_or_named(const struct sf_pv *dict, uint32_t i, const struct ds_param *p)
{
	const struct sf_pv *d = ds_dict(dict);

	if (d && 2 * (size_t)i + 1 < d->seq.n && sf_pv_is_str(d->seq.at[2 * (size_t)i], p->name))
		return d->seq.at[2 * (size_t)i + 1];
	return (struct sf_pv *)ds_get(dict, p->name);
}

/* ZeRO-3: each rank has a piece of a frozen parameter, as it is stored. */
static int frozen_space(struct ds_lowering *l, uint32_t frozen, struct ds_space *ret)
{
	const struct ds_param *p = &l->s->frozen.at[frozen];
	int r = 0;

	for (size_t i = 0; i < l->s->nmodel && r >= 0; i++) {
		const struct sf_pv *f = ds_get(l->s->model[i].archive.root,
		                               "frozen_param_fragments"),
				   *v = at_or_named(f, frozen, p);
		if (!v)
			return sf_fail(l->err, -EBADMSG, "'%s': no fragment of '%.200s'",
			               l->s->model[i].file->name, p->name);
		r = ds_space_add(ret, l->b, &l->s->model[i], v, l->err);
	}
	return r;
}

/* ---- one weight as a tensor ---- */

static const struct ds_entry *stored_as(const struct ds_lowering *l, const struct ds_entry *e)
{
	return e->same_as == SF_NONE ? e : &l->t->at.at[e->same_as];
}

/* SF_DTYPE_NONE: no rank has anything of it. */
static enum sf_dtype dtype_of(const struct ds_lowering *l, const struct ds_param *p,
                              unsigned moment)
{
	return (enum sf_dtype)l->s->moment[moment].space[l->s->stage == 3 ? 0 : p->space].dtype;
}

static int lower_trained(struct ds_lowering *l, const struct ds_param *p, uint32_t *ret)
{
	int r;

	if (!dtype_of(l, p, 0))
		return 0;
	r = add_tensor(l, dtype_of(l, p, 0), p->shape, p->ndim, ret);
	return r < 0 ? r : trained_chunks(l, p, 0, *ret);
}

int ds_lower_moment(struct ds_lowering *l, const struct ds_param *p, unsigned moment)
{
	uint32_t tensor;
	int r;

	if (!dtype_of(l, p, moment))
		return 0;
	r = add_tensor(l, dtype_of(l, p, moment), p->shape, p->ndim, &tensor);
	return r < 0 ? r : trained_chunks(l, p, moment, tensor);
}

static int lower_frozen(struct ds_lowering *l, uint32_t frozen, uint32_t *ret)
{
	const struct ds_param *p = &l->s->frozen.at[frozen];
	struct ds_space space = { 0 };
	struct sf_torch_tensor t;
	uint32_t chunks = 0;
	int r;

	if (!l->s->empty) {
		const struct sf_pv *f = ds_get(l->s->model[0].archive.root,
		                               "frozen_param_fragments"),
				   *v = at_or_named(f, frozen, p);
		if (!v || sf_torch_tensor_from_pv(v, &t, NULL) != 1)
			return 0; /* what the model has under the name is shown */
		r = sf_torch_lower_tensor(l->b, &l->s->model[0], (const char *)l->name.at,
		                          l->name.len, &t, &l->ties, ret, l->err);
		return r < 0 ? r : ds_set_path(l);
	}
	r = frozen_space(l, frozen, &space);
	if (r >= 0 && space.dtype)
		r = add_tensor(l, (enum sf_dtype)space.dtype, p->shape, p->ndim, ret);
	if (r >= 0 && space.dtype)
		r = ds_space_chunks(&space, 0, p->numel, 0, l->b, *ret, p->shape, &chunks, l->err);
	ds_space_release(&space);
	return r;
}

static bool is_16_bit(enum sf_dtype dtype)
{
	return dtype == SF_FLOAT16 || dtype == SF_BFLOAT16;
}

/* As the model states have it. @wide: 16-bit floats are shown as 32-bit ones, once the model's own is
 * there: without chunks until then. */
static int lower_stored(struct ds_lowering *l, const struct ds_entry *e, bool wide, uint32_t *ret)
{
	struct sf_torch_tensor t;
	int r;

	if (!e->module || sf_torch_tensor_from_pv(e->module, &t, NULL) != 1)
		return 0;
	if (wide && is_16_bit((enum sf_dtype)t.dtype))
		return add_tensor(l, SF_FLOAT32, t.shape, t.ndim, ret);
	r = sf_torch_lower_tensor(l->b, &l->s->model[0], (const char *)l->name.at, l->name.len, &t,
	                          &l->ties, ret, l->err);
	return r < 0 ? r : ds_set_path(l);
}

/* ---- fp32 ---- */

/* Of what is trained the master; of frozen weights what is stored; a buffer as a 32-bit one. */
static int lower_master(struct ds_lowering *l, struct ds_entry *e)
{
	const struct ds_entry *of = stored_as(l, e);
	int r = ds_key(l, "fp32", e, NULL);

	if (r < 0)
		return r;
	if (of->trained != SF_NONE && l->s->nmoments)
		r = lower_trained(l, &l->s->params.at[of->trained], &e->fp32);
	else if (of->frozen != SF_NONE)
		r = lower_frozen(l, of->frozen, &e->fp32);
	if (r >= 0 && e->fp32 == SF_NONE)
		r = lower_stored(l, e, e->buffer || l->s->stage == 0, &e->fp32);
	/* the same partitions; what is stored as a tensor was tied when it was found to be the same */
	if (r >= 0 && of != e && of->fp32 != SF_NONE && e->fp32 != SF_NONE && of->fp32 < e->fp32 &&
	    ((of->trained != SF_NONE && l->s->nmoments) || (of->frozen != SF_NONE && l->s->empty)))
		r = sf_ckpt_builder_tie(l->b, e->fp32, of->fp32, l->err);
	return r;
}

int ds_lower_fp32(struct ds_lowering *l)
{
	int r = 0;

	for (size_t i = 0; i < l->t->at.n && r >= 0; i++)
		r = lower_master(l, &l->t->at.at[i]);
	return r;
}

/* ---- module ---- */

/* ZeRO-3's model states have an empty tensor in place of a weight: that is the master, rounded to the
 * dtype of the empty one. */
static int lower_rounded(struct ds_lowering *l, struct ds_entry *e, const struct sf_torch_tensor *t)
{
	const struct ds_entry *of = stored_as(l, e);
	const bool trained = of->trained != SF_NONE;
	const struct ds_param *p =
		trained ? &l->s->params.at[of->trained] : &l->s->frozen.at[of->frozen];
	const enum sf_dtype dtype = (enum sf_dtype)t->dtype,
			    master = trained ? dtype_of(l, p, 0) : dtype;
	int r;

	if (master != dtype && sf_dtype_info(dtype)->is_float && sf_dtype_info(master)->is_float) {
		r = add_tensor(l, dtype, p->shape, p->ndim, &e->weight);
		if (r >= 0)
			r = sf_ckpt_builder_cast(l->b, e->weight, e->fp32, l->err);
		if (r >= 0 && of != e && of->weight != SF_NONE && of->weight < e->weight)
			r = sf_ckpt_builder_tie(l->b, e->weight, of->weight, l->err);
		return r;
	}
	r = trained ? lower_trained(l, p, &e->weight) : lower_frozen(l, of->frozen, &e->weight);
	return r < 0 || e->weight == SF_NONE
	               ? r
	               : sf_ckpt_builder_tie(l->b, e->weight, e->fp32, l->err);
}

static int lower_weight(struct ds_lowering *l, struct ds_entry *e)
{
	const struct ds_entry *of = stored_as(l, e);
	struct sf_torch_tensor t;
	int r = ds_key(l, "module", e, NULL);

	if (r < 0)
		return r;
	if (sf_torch_tensor_from_pv(e->module, &t, NULL) != 1) {
		r = sf_torch_lower_value(l->b, &l->s->model[0], (const char *)l->name.at,
		                         l->name.len, e->module, l->err);
		return r < 0 ? r : ds_set_path(l);
	}
	if (l->s->empty && e->fp32 != SF_NONE &&
	    (of->trained != SF_NONE || (of->frozen != SF_NONE && l->s->empty)))
		return lower_rounded(l, e, &t);
	if (l->s->empty && t.ndim == 1 && t.shape[0] == 0)
		r = warn(l, "missing-item", "is an empty place, and no partition has it");
	if (r >= 0)
		r = lower_stored(l, e, false, &e->weight);
	/* what fp32 shows of it is this one, cast */
	if (r >= 0 && e->weight != SF_NONE && e->fp32 != SF_NONE &&
	    is_16_bit((enum sf_dtype)t.dtype) && (e->buffer || !l->s->stage) &&
	    of->trained == SF_NONE && of->frozen == SF_NONE)
		r = sf_ckpt_builder_cast(l->b, e->fp32, e->weight, l->err);
	return r;
}

int ds_lower_module(struct ds_lowering *l)
{
	int r = 0;

	for (size_t i = 0; i < l->t->at.n && r >= 0; i++)
		if (l->t->at.at[i].module)
			r = lower_weight(l, &l->t->at.at[i]);
	return r;
}
