#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "format/megatron/megatron_join.h"
#include "format/megatron/megatron_names.h"
#include "format/torch/torch_lower.h"

#define NAMES_MAX (UINT64_C(1) << 22)
#define NAME_MAX_BYTES (64u << 10)
#define CHUNKS_MAX 128        /* virtual pipeline chunks of a stage */
#define STAGES_MAX (1u << 18) /* of all chunks */

/* What one rank has of a parameter. */
struct piece {
	struct sf_pv *v; /* NULL: nothing */
	const struct megatron_rank *rank;
};

/* A parameter of the whole model. */
struct param {
	const char *name; /* as it is in the whole */
	const char *local;
	uint32_t len, local_len;
	uint32_t pipe, chunk; /* of who had it first */
	struct piece *piece;  /* by tensor rank */
	bool is_value;
};
SF_VEC(params, struct param);

struct join {
	const struct megatron_ranks *ranks;
	const struct sf_join_rules *rules;
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct megatron_lefts *left;
	struct megatron_stacks stacks;
	struct sf_arena arena;
	struct params param;
	struct sf_map names;
	struct sf_buf name;
	uint32_t nchunk;
	bool numbered; /* model0, model1 … instead of model */
	/* of the walk */
	const struct megatron_rank *rank;
	uint32_t chunk;
	bool counting;
	/* unjoined names */
	uint32_t nunjoined;
	char first[200];
};

static int no_memory(struct join *j)
{
	return sf_fail(j->err, -ENOMEM, "no memory for %zu parameters", j->param.n);
}

/* ---- what is left ---- */

static int leave(struct join *j, const struct megatron_rank *rank, const char *name, size_t len,
                 struct sf_pv *v)
{
	struct megatron_lefts *l = j->left;

	if (l->n == l->cap) {
		const size_t cap = SF_MAX(l->cap * 2, (size_t)64);
		void *at = reallocarray(l->at, cap, sizeof(*l->at));
		if (!at)
			return no_memory(j);
		l->at = at;
		l->cap = cap;
	}
	l->at[l->n] = (struct megatron_left){ .rank = rank,
		                              .name = sf_arena_strdup(&l->arena, name, len),
		                              .len = (uint32_t)len,
		                              .v = v };
	return l->at[l->n++].name ? 0 : no_memory(j);
}

void megatron_lefts_release(struct megatron_lefts *l)
{
	free(l->at);
	sf_arena_release(&l->arena);
	*l = (struct megatron_lefts){ .n = 0 };
}

/* All pieces of one that is not put together. */
static int leave_all(struct join *j, const struct param *p)
{
	int r = 0;

	for (uint32_t t = 0; t < j->ranks->ntensor && r >= 0; t++)
		if (p->piece[t].v)
			r = leave(j, p->piece[t].rank, p->local, p->local_len, p->piece[t].v);
	return r;
}

/* ---- names ---- */

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct param *p = &((const struct join *)arg)->param.at[value];

	return p->len == len && memcmp(p->name, key, len) == 0;
}

/* The last stage of a model with tied embeddings has the first one's once more. */
static bool is_tied_copy(const struct join *j, const char *name, size_t len)
{
	static const char tied[] = "output_layer.weight";
	const size_t n = sizeof(tied) - 1;
	const struct megatron_ranks *r = j->ranks;
	const bool untied = megatron_arg_is_set(r, "untie_embeddings_and_output_weights"),
		   said = r->args && sf_pv_get(r->args, "untie_embeddings_and_output_weights");

	return said && !untied && r->npipe > 1 && len >= n &&
	       memcmp(name + len - n, tied, n) == 0 && (len == n || name[len - n - 1] == '.');
}

/* The parameter of that name, made when there is none; NULL: no memory. */
static struct param *param_of(struct join *j, const char *local, size_t local_len, bool is_value)
{
	const char *name = (const char *)j->name.at;
	const size_t len = j->name.len;
	uint32_t at = sf_map_get(&j->names, name, len, same_name, j);
	struct param p = { .len = (uint32_t)len,
		           .local_len = (uint32_t)local_len,
		           .pipe = j->rank->pipe,
		           .chunk = j->chunk,
		           .is_value = is_value };
	int failed = 0;

	if (at != SF_MAP_NONE)
		return &j->param.at[at];
	p.name = sf_arena_strdup(&j->arena, name, len);
	p.local = sf_arena_strdup(&j->arena, local, local_len);
	p.piece = sf_arena_calloc(&j->arena, j->ranks->ntensor, sizeof(*p.piece));
	if (!p.name || !p.local || !p.piece || params_push(&j->param, p) < 0)
		return NULL;
	at = (uint32_t)j->param.n - 1;
	sf_map_add(&j->names, name, len, at, same_name, j, &failed);
	return failed ? NULL : &j->param.at[at];
}

static int take(struct join *j, const char *local, size_t len, struct sf_pv *v, bool is_value)
{
	const struct megatron_rank *rank = j->rank;
	struct param *p;

	megatron_stacks_name(&j->stacks, local, len, rank->pipe, j->chunk, rank->expert, &j->name);
	if (sf_buf_check(&j->name) < 0)
		return no_memory(j);
	if (is_value && (v->kind == SF_PV_NONE || j->ranks->ntensor > 1))
		return v->kind == SF_PV_NONE ? 0 : leave(j, rank, local, len, v);
	if (is_tied_copy(j, local, len))
		return leave(j, rank, local, len, v);
	p = param_of(j, local, len, is_value);
	if (!p)
		return no_memory(j);
	if (p->pipe != rank->pipe || p->chunk != j->chunk || p->is_value != is_value)
		return leave(j, rank, local, len, v);
	if (!p->piece[rank->tensor].v) /* else one that all expert ranks have */
		p->piece[rank->tensor] = (struct piece){ v, rank };
	return 0;
}

/* sf_value_walk.tell */
static int on_leaf(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	struct join *j = w->arg;
	const char *name;

	if (what == SF_WALK_MANY || what == SF_WALK_DEEP || what == SF_WALK_LONG)
		return sf_fail(j->err, -E2BIG, "'%s': too many names, too long or too deep",
		               j->rank->model->file->name);
	name = sf_buf_cstr(&w->name);
	if (!name)
		return no_memory(j);
	if (j->counting) {
		int r = megatron_stacks_add(&j->stacks, name, w->name.len, j->rank->pipe, j->chunk);
		return r == -E2BIG ? sf_fail(j->err, r, "'%s': more than %d stacks of layers",
		                             j->rank->model->file->name, MEGATRON_STACKS_MAX)
		       : r < 0     ? no_memory(j)
		                   : 0;
	}
	if (what == SF_WALK_TENSOR)
		return take(j, name, w->name.len, v, false);
	if (what == SF_WALK_ODD_KEY || what == SF_WALK_CYCLE)
		return sf_ckpt_builder_warn(j->b, NULL, "unread-value",
		                            "'%s': a part of the model is not shown: it is under a "
		                            "key that is no text, or holds itself",
		                            j->rank->model->file->name);
	return take(j, name, w->name.len, v, true);
}

/* The container of chunk @chunk's parameters. */
static struct sf_pv *model_of(const struct join *j, const struct megatron_rank *rank,
                              uint32_t chunk)
{
	char name[32] = "model";

	if (j->numbered)
		snprintf(name, sizeof(name), "model%" PRIu32, chunk);
	return sf_pv_get(rank->model->archive.root, name);
}

static int walk(struct join *j, const struct megatron_rank *rank, uint32_t chunk, bool counting)
{
	struct sf_value_walk w = { .tell = on_leaf,
		                   .arg = j,
		                   .leaves = true,
		                   .depth_max = 100,
		                   .nodes_max = NAMES_MAX,
		                   .name_max = NAME_MAX_BYTES };
	struct sf_pv *model = model_of(j, rank, chunk);
	int r;

	if (!model)
		return 0;
	j->rank = rank;
	j->chunk = chunk;
	j->counting = counting;
	r = sf_value_walk(&w, model);
	sf_value_walk_release(&w);
	return r == -ENOMEM ? no_memory(j) : r;
}

/* One rank of each stage tells its layers. */
static int count_layers(struct join *j)
{
	const struct megatron_ranks *ranks = j->ranks;
	int r = 0;

	for (uint32_t c = 0; c < j->nchunk; c++)
		for (uint32_t p = 0; p < ranks->npipe; p++) {
			const struct megatron_rank *at = megatron_rank_at(ranks, p, 0, 0);
			for (uint32_t k = 1; !at->model && k < ranks->nexpert * ranks->ntensor; k++)
				at = megatron_rank_at(ranks, p, k / ranks->ntensor,
				                      k % ranks->ntensor);
			r = walk(j, at, c, true); /* a stage without any was refused */
			if (r < 0)
				return r;
		}
	megatron_stacks_end(&j->stacks);
	const uint32_t found = megatron_stacks_layers(&j->stacks, "decoder.layers.");
	const uint64_t want = megatron_arg(ranks, "num_layers", found);
	if (found && want != found)
		r = sf_ckpt_builder_warn(j->b, NULL, "layer-count",
		                         "args.num_layers is %" PRIu64 ", the stages have %" PRIu32
		                         ": numbers of layers may not be the model's",
		                         want, found);
	return r;
}

static int walk_all(struct join *j)
{
	const struct megatron_ranks *ranks = j->ranks;
	int r = 0;

	for (uint32_t c = 0; c < j->nchunk; c++)
		for (uint32_t p = 0; p < ranks->npipe; p++)
			for (uint32_t k = 0; k < ranks->nexpert * ranks->ntensor && r >= 0; k++) {
				const struct megatron_rank *at = megatron_rank_at(
					ranks, p, k / ranks->ntensor, k % ranks->ntensor);
				if (at->model)
					r = walk(j, at, c, false);
			}
	return r;
}

/* ---- tensors ---- */

static bool same_shape(const struct sf_torch_tensor *a, const struct sf_torch_tensor *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) == 0;
}

/* The first piece; do all others look like it? *ret_odd: one that does not. */
static bool pieces_agree(const struct join *j, const struct param *p, struct sf_torch_tensor *first,
                         uint32_t *ret_first, uint32_t *ret_odd)
{
	struct sf_torch_tensor t;
	bool any = false;

	for (uint32_t i = 0; i < j->ranks->ntensor; i++) {
		if (!p->piece[i].v)
			continue;
		if (sf_torch_tensor_from_pv(p->piece[i].v, any ? &t : first, NULL) <= 0)
			continue; /* the walk saw it */
		if (!any)
			*ret_first = i;
		*ret_odd = i;
		if (any && !same_shape(first, &t))
			return false;
		any = true;
	}
	return any;
}

/* Rows [part * n, (part + 1) * n) of a piece. */
static struct sf_torch_tensor rows_of(const struct sf_torch_tensor *t, uint64_t n, uint64_t part)
{
	struct sf_torch_tensor ret = *t;

	ret.shape[0] = n;
	ret.storage_off += part * n * (uint64_t)t->stride[0];
	return ret;
}

/* A chunk for each piece along @axis, in @halves runs of them: 1, or 2 of a gated one. */
static int lower_joined(struct join *j, const struct param *p, const struct sf_torch_tensor *first,
                        unsigned axis, unsigned halves)
{
	const uint32_t n = j->ranks->ntensor;
	const uint64_t each = first->shape[axis] / halves;
	uint64_t shape[SF_DIMS_MAX], origin[SF_DIMS_MAX] = { 0 }, extent[SF_DIMS_MAX];
	struct sf_torch_tensor t;
	uint32_t tensor, chunk = 0;
	int r;

	memcpy(shape, first->shape, first->ndim * sizeof(*shape));
	memcpy(extent, first->shape, first->ndim * sizeof(*extent));
	extent[axis] = each;
	if (!sf_mul(first->shape[axis], n, &shape[axis]))
		return sf_fail(j->err, -EBADMSG, "'%.200s' passes 2^64 elements", p->name);
	r = sf_ckpt_builder_tensor(j->b, p->name, p->len, (enum sf_dtype)first->dtype, shape,
	                           first->ndim, &tensor, j->err);
	for (unsigned h = 0; h < halves; h++)
		for (uint32_t i = 0; i < n && r >= 0; i++, chunk++) {
			origin[axis] = chunk * each;
			r = sf_ckpt_builder_chunk(j->b, origin, extent, j->err);
			if (r < 0 || !p->piece[i].v ||
			    sf_torch_tensor_from_pv(p->piece[i].v, &t, NULL) <= 0)
				continue;
			if (halves > 1)
				t = rows_of(&t, each, h);
			r = sf_torch_lower_item(j->b, p->piece[i].rank->model, tensor, chunk, &t,
			                        j->err);
		}
	return r;
}

static int disagree(struct join *j, const struct param *p, uint32_t a, uint32_t b)
{
	int r = sf_ckpt_builder_warn(j->b, NULL, "ranks-disagree",
	                             "'%.200s' has another shape or dtype in '%s' than in '%s': "
	                             "shown per rank",
	                             p->name, p->piece[b].rank->model->file->name,
	                             p->piece[a].rank->model->file->name);

	return r < 0 ? r : leave_all(j, p);
}

static int unjoined(struct join *j, const struct param *p)
{
	struct sf_buf shown = { .limit = 4096 };

	if (!j->nunjoined++) {
		sf_escape_text(&shown, p->name, SF_MIN(strlen(p->name), 200u));
		snprintf(j->first, sizeof(j->first), "%s", sf_buf_cstr(&shown));
		sf_buf_release(&shown);
	}
	return leave_all(j, p);
}

/* What is not to be put together, whatever its rule says. */
static bool is_odd(const struct join *j, const struct param *p)
{
	const struct megatron_ranks *r = j->ranks;
	const uint64_t expert_tensor = megatron_arg(r, "expert_tensor_parallel_size", r->ntensor);

	/* before version 2 rows of query, key and value were interleaved within each rank */
	if (r->version > 0 && r->version < 2 && strstr(p->name, "query_key_value."))
		return true;
	return strstr(p->name, ".experts.") && expert_tensor && expert_tensor != r->ntensor;
}

static int lower_param(struct join *j, const struct param *p, struct sf_torch_ties *ties)
{
	struct sf_join_rule rule = { .how = SF_JOIN_COPY };
	uint32_t first = 0, odd = 0;
	struct sf_torch_tensor t;
	bool known = true;

	if (p->is_value)
		return sf_torch_lower_value(j->b, p->piece[0].rank->model, p->name, p->len,
		                            p->piece[0].v, j->err);
	if (j->ranks->ntensor > 1) {
		rule = sf_join_rules_find(j->rules, p->name, p->len, &known);
		if (!known || rule.how == SF_JOIN_PER_RANK || is_odd(j, p))
			return unjoined(j, p);
	}
	if (!pieces_agree(j, p, &t, &first, &odd))
		return disagree(j, p, first, odd);
	if (rule.how == SF_JOIN_COPY)
		return sf_torch_lower_tensor(j->b, p->piece[first].rank->model, p->name, p->len, &t,
		                             ties, NULL, j->err);
	if (rule.axis >= t.ndim || (rule.how == SF_JOIN_GATED && t.shape[0] % 2))
		return unjoined(j, p);
	return lower_joined(j, p, &t, rule.axis, rule.how == SF_JOIN_GATED ? 2 : 1);
}

/* In the order of the stages, so that one file's tensors follow each other. */
static int lower_params(struct join *j)
{
	SF_CLEANUP(sf_torch_ties_release) struct sf_torch_ties ties = { 0 };
	const struct megatron_rank *last = NULL;
	bool is_tensor;
	int r = 0;

	for (size_t i = 0; i < j->param.n && r >= 0; i++) {
		const struct param *p = &j->param.at[i];
		if (p->piece[0].rank != last) /* ties are one file's */
			sf_torch_ties_release(&ties);
		last = p->piece[0].rank;
		r = lower_param(j, p, j->ranks->ntensor == 1 ? &ties : NULL);
		if (r >= 0 && sf_ckpt_builder_find(j->b, p->name, p->len, &is_tensor) != SF_NONE)
			r = sf_ckpt_builder_group(j->b, p->name, p->len, "model", SF_ROLE_MODEL, 0,
			                          j->err);
	}
	if (r >= 0 && j->nunjoined)
		r = sf_ckpt_builder_warn(j->b, NULL, "unjoined",
		                         "%" PRIu32 " parameters are shown per rank, under rank.: "
		                         "no rule says how to join them; the first is '%s'",
		                         j->nunjoined, j->first);
	return r;
}

/* model, or model0 to modelN: of the first rank that is there. */
static void count_chunks(struct join *j)
{
	const struct megatron_rank *at = j->ranks->at;

	while (!at->model)
		at++;
	j->numbered = !sf_pv_get(at->model->archive.root, "model");
	j->nchunk = 1;
	while (j->numbered && j->nchunk < CHUNKS_MAX && model_of(j, at, j->nchunk))
		j->nchunk++;
}

int megatron_join(const struct megatron_ranks *ranks, const struct sf_join_rules *rules,
                  struct sf_ckpt_builder *b, struct megatron_lefts *left, struct sf_error *err)
{
	struct join j = { .ranks = ranks,
		          .rules = rules,
		          .b = b,
		          .err = err,
		          .left = left,
		          .name.limit = NAME_MAX_BYTES + 64 };
	int r;

	count_chunks(&j);
	if ((uint64_t)j.nchunk * ranks->npipe > STAGES_MAX)
		return sf_fail(err, -E2BIG, "%" PRIu32 " chunks of %" PRIu32 " pipeline stages",
		               j.nchunk, ranks->npipe);
	j.stacks.npipe = ranks->npipe;
	j.stacks.nchunk = j.nchunk;
	r = count_layers(&j);
	if (r >= 0)
		r = walk_all(&j);
	if (r >= 0)
		r = lower_params(&j);
	megatron_stacks_release(&j.stacks);
	params_release(&j.param);
	sf_map_release(&j.names);
	sf_buf_release(&j.name);
	sf_arena_release(&j.arena);
	return r;
}
