#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/catalog_slice.h"
#include "ckpt/box.h"
#include "ckpt/join_rules.h"

#define NO_AXIS UINT8_MAX
#define BIT(d) (UINT64_C(1) << (d)) /* SF_DIMS_MAX is 64 */

struct slicing {
	struct sf_catalog *c;
	struct sf_slices *s;
	struct sf_join_rules rules;
	bool stacks; /* leading dimensions of extent 1 are layers and experts: Megatron's */
	struct sf_error *err;
};

/* Bits of the dimensions that are cut, and of those that are cut into single elements. */
static void look_at_chunks(const struct sf_tensor *t, uint64_t *ret_cut, uint64_t *ret_single)
{
	uint64_t cut = 0, single = UINT64_MAX;

	for (uint32_t i = 0; i < t->norder; i++)
		for (unsigned d = 0; d < t->ndim; d++) {
			uint64_t extent = sf_chunk_extent(t, t->order[i], d);
			if (extent != t->shape[d])
				cut |= BIT(d);
			if (extent != 1)
				single &= ~BIT(d);
		}
	*ret_cut = cut;
	*ret_single = single & cut;
}

/* How many dimensions in front are layers or experts that were stacked. */
static unsigned stacked(const struct slicing *g, const struct sf_tensor *t,
                        const struct sf_join_rule *rule, uint64_t single)
{
	unsigned n = 0;

	if (rule)
		return t->ndim > rule->ndim ? (unsigned)(t->ndim - rule->ndim) : 0;
	while (g->stacks && n + 1 < t->ndim && (single & BIT(n)))
		n++;
	return n;
}

/* The dimension that this tensor was cut along when it was saved, NO_AXIS: none, or several. */
static unsigned saved_axis(uint64_t cut, unsigned first)
{
	cut &= ~(BIT(first) - 1);
	return cut && !(cut & (cut - 1)) ? (unsigned)__builtin_ctzll(cut) : NO_AXIS;
}

/* The rule of the name that is shown, or else of the stored one. */
static struct sf_join_rule find(const struct slicing *g, const struct sf_entry *e,
                                const struct sf_join_rules *rules, bool *ret_known)
{
	const struct sf_key *k = &g->c->ckpt->key[e->key];
	struct sf_join_rule rule = sf_join_rules_find(rules, e->name, e->len, ret_known);

	if (*ret_known && (!rules->n || !rule.ndim))
		return rule;
	bool known;
	struct sf_join_rule stored = sf_join_rules_find(rules, k->name, k->len, &known);
	if (*ret_known && (!known || stored.ndim))
		return rule;
	*ret_known = known;
	return stored;
}

/* cut->why and cut->axis; *ret_halves: that dimension is two halves, and each of them is cut. */
static int choose(const struct slicing *g, const struct sf_entry *e, const struct sf_tensor *t,
                  struct sf_slice_cut *cut, bool *ret_halves)
{
	const struct sf_join_rules none = { .n = 0 };
	uint64_t chunks, single;
	unsigned first, saved, axis = NO_AXIS;
	bool known, by_name;
	struct sf_join_rule mine = find(g, e, &g->rules, &known),
			    ruled = find(g, e, &none, &by_name);
	const bool users = known && !mine.ndim;

	look_at_chunks(t, &chunks, &single);
	first = stacked(g, t, by_name ? &ruled : NULL, single);
	saved = saved_axis(chunks, first);
	*ret_halves = users && mine.how == SF_JOIN_GATED;
	if (users && mine.how == SF_JOIN_ALONG)
		axis = mine.axis;
	else if (*ret_halves)
		axis = first;
	else if (!users)
		axis = saved != NO_AXIS                        ? saved
		       : by_name && ruled.how == SF_JOIN_ALONG ? first + ruled.axis
		                                               : NO_AXIS;
	cut->why = axis == NO_AXIS ? users || by_name ? SF_SLICE_COPY : SF_SLICE_UNKNOWN
	           : !users && saved != NO_AXIS ? SF_SLICE_SAVED
	                                        : SF_SLICE_RULED;
	cut->axis = (uint8_t)axis;
	cut->maybe_gated = axis != NO_AXIS && !users && by_name && ruled.if_gated;
	if (axis != NO_AXIS && axis >= t->ndim && users)
		return sf_fail(g->err, -EINVAL,
		               "slice=tp:%" PRIu32 ": a rule of --join-rules cuts '%.200s' along "
		               "axis %u, and it has %u dimensions",
		               g->s->ranks, e->name, axis, t->ndim);
	if (axis != NO_AXIS && axis >= t->ndim) { /* of that name, and something else */
		cut->why = SF_SLICE_UNKNOWN;
		cut->axis = NO_AXIS;
	}
	return 0;
}

/* What a rank has of it, in numbers. */
static int measure(const struct slicing *g, const struct sf_entry *e, const struct sf_tensor *t,
                   struct sf_slice_cut *cut, unsigned halves)
{
	const uint32_t n = g->s->ranks;
	uint64_t *shape, run;

	cut->shape = t->shape;
	if (cut->axis == NO_AXIS)
		return 0;
	if (t->shape[cut->axis] % ((uint64_t)n * halves))
		return sf_fail(g->err, -EINVAL,
		               "slice=tp:%" PRIu32 ": dimension %u of '%.200s' has %" PRIu64
		               "%s, which %" PRIu32 " does not divide (a rule of --join-rules, "
		               "\"KEY copy\", leaves it whole in every rank)",
		               n, cut->axis, e->name, t->shape[cut->axis],
		               halves > 1 ? " in two halves" : "", n);
	shape = sf_arena_calloc(&g->c->arena, t->ndim, sizeof(*shape));
	if (!shape)
		return sf_fail(g->err, -ENOMEM, "no memory for slices of '%.200s'", e->name);
	memcpy(shape, t->shape, t->ndim * sizeof(*shape));
	shape[cut->axis] /= n;
	run = shape[cut->axis] / halves;
	for (unsigned d = cut->axis + 1u; d < t->ndim; d++)
		run *= shape[d];
	cut->shape = shape;
	cut->run = run;
	return 0;
}

static int slice_key(struct slicing *g, const struct sf_entry *e, struct sf_slice_cut *cut)
{
	bool halves = false;
	int r = 0;

	cut->axis = NO_AXIS;
	cut->why = SF_SLICE_OBJECT;
	if (e->tensor != SF_NONE) {
		const struct sf_tensor *t = &g->c->ckpt->tensor[e->tensor];
		r = choose(g, e, t, cut, &halves);
		if (r >= 0)
			r = measure(g, e, t, cut, halves ? 2 : 1);
	}
	g->s->nwhy[cut->why]++;
	g->s->nmaybe_gated += cut->maybe_gated;
	return r;
}

static int slice_all(struct slicing *g, struct sf_error *err)
{
	const struct sf_catalog *c = g->c;
	const struct sf_cat_group *group = &g->s->group;
	struct sf_slice_cut *cut = sf_arena_calloc(&g->c->arena, group->n + 1, sizeof(*cut));
	int r = 0;

	if (!cut)
		return sf_fail(err, -ENOMEM, "no memory for slices of %" PRIu32 " keys", group->n);
	g->s->cut = cut;
	for (uint32_t i = 0; i < group->n && r >= 0; i++)
		r = slice_key(g, &c->entry[c->by_group[group->first + i]], &cut[i]);
	return r;
}

int sf_slices_new(struct sf_catalog *c, struct sf_error *err)
{
	struct slicing g = { .c = c,
		             .stacks = strcmp(c->ckpt->format, "megatron") == 0,
		             .err = err };
	int r = 0;

	if (c->model_group < 0)
		return sf_fail(err, -EINVAL, "slice=tp:%" PRIu32 ": the checkpoint has no model",
		               c->opt->slice_tp);
	g.s = sf_arena_calloc(&c->arena, 1, sizeof(*g.s));
	if (!g.s)
		return sf_fail(err, -ENOMEM, "no memory for slices");
	g.s->ranks = c->opt->slice_tp;
	g.s->group = c->group[c->model_group];
	if (c->opt->join_rules)
		r = sf_join_rules_parse(c->opt->join_rules, strlen(c->opt->join_rules), &g.rules,
		                        err);
	if (r >= 0)
		r = slice_all(&g, err);
	sf_join_rules_release(&g.rules);
	if (r >= 0)
		c->slices = g.s;
	return r;
}
