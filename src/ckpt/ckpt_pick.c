#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_pick.h"
#include "parse/dtype.h"

struct picking {
	struct sf_ckpt *ckpt;
	struct sf_key *key;
	struct sf_tensor *tensor;
	struct sf_group *group;
	uint32_t *number; /* of each key, its new one */
	uint32_t nkeys, ntensors;
	struct sf_error *err;
};

static uint64_t inner(const struct sf_tensor *t, unsigned from)
{
	uint64_t n = 1;

	for (unsigned d = from; d < t->ndim; d++)
		n *= t->shape[d];
	return n;
}

struct sf_pick_runs sf_pick_runs(const struct sf_ckpt *ckpt, const struct sf_tensor_pick *of)
{
	const struct sf_tensor *t = &ckpt->tensor[of->source];
	const unsigned lead = of->stacked ? 1 : 0;
	const uint64_t all = inner(t, lead), base = of->stacked ? of->index * all : 0;
	uint64_t row;

	if (!of->rows)
		return (struct sf_pick_runs){ base, all, all, all ? 1 : 0 };
	row = inner(t, lead + 1);
	return (struct sf_pick_runs){ base + of->first * row, of->rows * row, of->period * row,
		                      row ? t->shape[lead] / of->period : 0 };
}

/* Does the tensor have that part? */
static int check(const struct picking *p, const struct sf_pick *pick, const struct sf_tensor *t)
{
	const struct sf_tensor_pick *of = &pick->of;
	const unsigned need = (of->stacked ? 1u : 0u) + (of->rows ? 1 : 0);
	uint64_t rows;

	if (t->ndim < need)
		return sf_fail(p->err, -EINVAL,
		               "'%.200s': '%.200s' has %u dimensions, fewer than %u", pick->name,
		               p->ckpt->key[pick->key].name, t->ndim, need);
	if (of->stacked && of->index >= t->shape[0])
		return sf_fail(p->err, -EINVAL, "'%.200s': '%.200s' has %" PRIu64 " of them",
		               pick->name, p->ckpt->key[pick->key].name, t->shape[0]);
	if (!of->rows)
		return 0;
	rows = t->shape[need - 1];
	if (!of->period || of->first >= of->period || of->rows > of->period - of->first ||
	    rows % of->period)
		return sf_fail(p->err, -EINVAL,
		               "'%.200s': rows %" PRIu64 " to %" PRIu64 " of every %" PRIu64
		               ", and '%.200s' has %" PRIu64,
		               pick->name, of->first, of->first + of->rows, of->period,
		               p->ckpt->key[pick->key].name, rows);
	return 0;
}

static int make_tensor(struct picking *p, const struct sf_pick *pick)
{
	struct sf_arena *arena = &p->ckpt->arena;
	const uint32_t source = p->ckpt->key[pick->key].tensor;
	const struct sf_tensor *t = &p->tensor[source];
	const unsigned lead = pick->of.stacked ? 1 : 0, ndim = t->ndim - lead;
	struct sf_tensor_pick *of = sf_arena_calloc(arena, 1, sizeof(*of));
	struct sf_tensor_more *more = sf_arena_calloc(arena, 1, sizeof(*more));
	uint64_t *shape = sf_arena_calloc(arena, ndim + 1, sizeof(*shape));

	if (!of || !more || !shape)
		return sf_fail(p->err, -ENOMEM, "no memory for a part of '%.200s'",
		               p->ckpt->key[pick->key].name);
	*of = pick->of;
	of->source = source;
	more->pick = of;
	memcpy(shape, t->shape + lead, ndim * sizeof(*shape));
	if (of->rows)
		shape[0] = shape[0] / of->period * of->rows;
	struct sf_tensor part = {
		.key = p->nkeys,
		.dtype = t->dtype,
		.ndim = (uint8_t)ndim,
		.flags = t->flags & (SF_TENSOR_OVERLAP | SF_TENSOR_HOLE | SF_TENSOR_DAMAGED),
		.shape = shape,
		.bytes = sf_dtype_info((enum sf_dtype)t->dtype)->bytes,
		.more = more,
	};
	for (unsigned d = 0; d < ndim; d++)
		part.bytes *= shape[d];
	p->tensor[p->ntensors] = part;
	return 0;
}

static int add(struct picking *p, const struct sf_pick *pick)
{
	const struct sf_key *of = &p->ckpt->key[pick->key];
	struct sf_group *group = &p->group[of->group];
	const unsigned strip = of->npath > group->strip ? group->strip : 0;
	struct sf_path_elem *path;
	struct sf_key *k = &p->key[p->nkeys];
	int r;

	if (of->tensor == SF_NONE)
		return sf_fail(p->err, -EINVAL, "'%.200s' is not a tensor", of->name);
	r = check(p, pick, &p->tensor[of->tensor]);
	if (r >= 0)
		r = make_tensor(p, pick);
	if (r < 0)
		return r;
	path = sf_arena_calloc(&p->ckpt->arena, strip + 1, sizeof(*path));
	*k = *of;
	k->name = sf_arena_strdup(&p->ckpt->arena, pick->name, pick->len);
	k->len = pick->len;
	if (!path || !k->name)
		return sf_fail(p->err, -ENOMEM, "no memory for a part of '%.200s'", of->name);
	/* below the group, its name is one element: what --map makes of it is another */
	size_t from = 0;
	for (unsigned d = 0; d < strip; d++) {
		path[d] = of->path[d];
		from += of->path[d].len + 1;
	}
	from = from < k->len ? from : 0;
	path[strip] = (struct sf_path_elem){ .s = k->name + from, .len = k->len - (uint32_t)from };
	k->path = path;
	k->npath = strip + 1;
	k->picked = false;
	k->tensor = p->ntensors++;
	p->nkeys++;
	group->ntensors++;
	group->bytes += p->tensor[k->tensor].bytes;
	return 0;
}

/* What refers to keys by number. */
static int renumber(struct picking *p)
{
	struct sf_ckpt *c = p->ckpt;
	struct sf_object *object = sf_arena_calloc(&c->arena, c->nobjects + 1, sizeof(*object));
	struct sf_warning *warning = sf_arena_calloc(&c->arena, c->nwarnings + 1, sizeof(*warning));
	uint32_t *tied = c->tied ? sf_arena_calloc(&c->arena, p->ntensors, sizeof(*tied)) : NULL;

	if (!object || !warning || (c->tied && !tied))
		return sf_fail(p->err, -ENOMEM, "no memory for %" PRIu32 " keys", p->nkeys);
	for (uint32_t i = 0; i < c->nobjects; i++) {
		object[i] = c->object[i];
		object[i].key = p->number[object[i].key];
	}
	for (uint32_t i = 0; i < c->nwarnings; i++) {
		warning[i] = c->warning[i];
		if (warning[i].key != SF_NONE)
			warning[i].key = p->number[warning[i].key];
	}
	for (uint32_t i = 0; tied && i < p->ntensors; i++)
		tied[i] = i < c->ntensors ? c->tied[i] : i;
	for (uint32_t i = 0; i < c->ntensors; i++)
		p->tensor[i].key = p->number[p->tensor[i].key];
	c->object = object;
	c->warning = warning;
	c->tied = tied;
	return 0;
}

static int copy_keys(struct picking *p, const struct sf_pick *pick, size_t n)
{
	const struct sf_ckpt *c = p->ckpt;
	size_t at = 0;
	int r = 0;

	for (uint32_t i = 0; i < c->nkeys && r >= 0; i++) {
		const bool picked = at < n && pick[at].key == i;
		p->number[i] = p->nkeys;
		p->key[p->nkeys++] = c->key[i];
		p->key[p->nkeys - 1].picked = picked;
		if (picked) {
			struct sf_group *group = &p->group[c->key[i].group];
			group->ntensors--;
			group->bytes -=
				c->key[i].tensor != SF_NONE ? c->tensor[c->key[i].tensor].bytes : 0;
		}
		while (at < n && pick[at].key == i && r >= 0)
			r = add(p, &pick[at++]);
	}
	return r;
}

int sf_ckpt_pick(struct sf_ckpt *ckpt, const struct sf_pick *pick, size_t n, struct sf_error *err)
{
	struct sf_arena *arena = &ckpt->arena;
	struct picking p = { .ckpt = ckpt, .ntensors = ckpt->ntensors, .err = err };
	uint32_t nmain = ckpt->nmain;
	int r;

	if (!n)
		return 0;
	if (n > SF_NONE - 1 - ckpt->nkeys || n > SF_NONE - 1 - ckpt->ntensors)
		return sf_fail(err, -E2BIG, "%zu parts of tensors beside %" PRIu32 " keys", n,
		               ckpt->nkeys);
	p.key = sf_arena_calloc(arena, ckpt->nkeys + n, sizeof(*p.key));
	p.tensor = sf_arena_calloc(arena, ckpt->ntensors + n, sizeof(*p.tensor));
	p.group = sf_arena_calloc(arena, ckpt->ngroups, sizeof(*p.group));
	p.number = sf_arena_calloc(arena, ckpt->nkeys, sizeof(*p.number));
	if (!p.key || !p.tensor || !p.group || !p.number)
		return sf_fail(err, -ENOMEM, "no memory for %zu parts of tensors", n);
	memcpy(p.tensor, ckpt->tensor, ckpt->ntensors * sizeof(*p.tensor));
	memcpy(p.group, ckpt->group, ckpt->ngroups * sizeof(*p.group));
	r = copy_keys(&p, pick, n);
	if (r >= 0)
		r = renumber(&p);
	if (r < 0)
		return r;
	ckpt->nmain = nmain < ckpt->nkeys ? p.number[nmain] : p.nkeys;
	ckpt->key = p.key;
	ckpt->tensor = p.tensor;
	ckpt->group = p.group;
	ckpt->nkeys = p.nkeys;
	ckpt->ntensors = p.ntensors;
	return 0;
}
