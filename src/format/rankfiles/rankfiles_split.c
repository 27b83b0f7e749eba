#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "format/rankfiles/rankfiles_runs.h"
#include "format/rankfiles/rankfiles_split.h"

#define MESH_DIMS_MAX 32
#define WRAPS_MAX 8 /* parameters of parameters */

enum placement { REPLICATE, SHARD, STRIDED };

struct cut {
	enum placement what;
	unsigned dim;    /* of the tensor; unless REPLICATE */
	uint64_t factor; /* STRIDED; else 1 */
	uint64_t n, at;  /* the mesh's size along its dimension, and where the rank stands */
};

/* ---- what the pickle says ---- */

static const struct sf_pv *attr(const struct sf_pv *v, const char *name)
{
	return v ? sf_pv_get(v, name) : NULL;
}

/* The elements of a tuple, a list or a torch.Size; NULL: it is none. */
static const struct sf_pv *seq_of(const struct sf_pv *v)
{
	if (v && v->kind == SF_PV_CALL && sf_pv_is_global(v->call.callable, "torch", "Size") &&
	    v->call.args->kind == SF_PV_TUPLE && v->call.args->seq.n == 1)
		v = v->call.args->seq.at[0];
	return v && (v->kind == SF_PV_TUPLE || v->kind == SF_PV_LIST) ? v : NULL;
}

/* 0: @n numbers of at most @max, or -1. */
static int numbers(const struct sf_pv *v, uint64_t *ret, unsigned max, unsigned *ret_n)
{
	v = seq_of(v);
	if (!v || v->seq.n > max)
		return -1;
	for (size_t i = 0; i < v->seq.n; i++)
		if (!sf_pv_u64(v->seq.at[i], &ret[i]))
			return -1;
	*ret_n = (unsigned)v->seq.n;
	return 0;
}

/* The class of an instance: its last name; NULL none. */
static const char *class_of(const struct sf_pv *v)
{
	if (!v || (v->kind != SF_PV_OBJECT && v->kind != SF_PV_CALL) ||
	    v->call.callable->kind != SF_PV_GLOBAL ||
	    strncmp(v->call.callable->global.module->str.at, "torch.distributed", 17) != 0)
		return NULL;
	return v->call.callable->global.name->str.at;
}

/* A split tensor, whichever way it is pickled. */
struct split {
	const struct sf_pv *dtype, *shape; /* of a wrapper subclass; NULL else */
	const struct sf_pv *state;
	bool dtensor;
};

static bool is_split_class(const struct sf_pv *cls, bool *ret_dtensor)
{
	if (cls->kind != SF_PV_GLOBAL ||
	    strncmp(cls->global.module->str.at, "torch.distributed", 17) != 0)
		return false;
	*ret_dtensor = sf_pv_is_str(cls->global.name, "DTensor");
	return *ret_dtensor || sf_pv_is_str(cls->global.name, "ShardedTensor");
}

static int split_of(const struct sf_pv *v, struct split *ret)
{
	const struct sf_pv *args, *inner;

	*ret = (struct split){ 0 };
	if (v->kind == SF_PV_OBJECT) { /* before torch 1.13 a ShardedTensor was no tensor */
		ret->state = v->call.state;
		return is_split_class(v->call.callable, &ret->dtensor) && ret->state;
	}
	for (int i = 0;; i++) {
		if (i == WRAPS_MAX || v->kind != SF_PV_CALL || v->call.args->kind != SF_PV_TUPLE)
			return 0;
		args = v->call.args;
		if (!sf_pv_is_global(v->call.callable, "torch._utils", "_rebuild_parameter") ||
		    !args->seq.n)
			break;
		v = args->seq.at[0];
	}
	/* (function, class, its arguments, state); the arguments: (class, dtype, size, …) */
	if (!sf_pv_is_global(v->call.callable, "torch._tensor", "_rebuild_from_type_v2") ||
	    args->seq.n != 4 || args->seq.at[2]->kind != SF_PV_TUPLE ||
	    !is_split_class(args->seq.at[1], &ret->dtensor))
		return 0;
	inner = args->seq.at[2];
	if (inner->seq.n < 3)
		return 0;
	ret->dtype = inner->seq.at[1];
	ret->shape = inner->seq.at[2];
	ret->state = args->seq.at[3];
	return 1;
}

int rankfiles_is_split(const struct sf_pv *v)
{
	struct split s;

	return split_of(v, &s);
}

/* An attribute of an instance whose state is a dict, or that and one of slots. */
static const struct sf_pv *slot(const struct sf_pv *state, const char *name)
{
	const struct sf_pv *v = NULL;

	if (state->kind == SF_PV_DICT)
		return sf_pv_get(state, name);
	if (state->kind != SF_PV_TUPLE)
		return NULL;
	for (size_t i = 0; i < state->seq.n && i < 2 && !v; i++)
		if (state->seq.at[i]->kind == SF_PV_DICT)
			v = sf_pv_get(state->seq.at[i], name);
	return v;
}

static int whole_of(const struct split *s, const struct sf_pv *shape, struct rankfiles_whole *ret,
                    struct sf_error *err)
{
	unsigned n;

	*ret = (struct rankfiles_whole){ 0 };
	if (numbers(shape, ret->shape, SF_DIMS_MAX, &n) < 0)
		return sf_fail(err, -EBADMSG, "a part of a tensor that does not say its shape");
	ret->ndim = (uint8_t)n;
	if (s->dtype && s->dtype->kind == SF_PV_GLOBAL)
		ret->dtype = (uint8_t)sf_dtype_by_torch(s->dtype->global.name->str.at,
		                                        s->dtype->global.name->str.len);
	return 0;
}

/* The dtype is its parts' where the whole does not say one. */
static int check_dtype(struct rankfiles_whole *w, const struct sf_torch_tensor *t,
                       struct sf_error *err)
{
	if (!w->dtype)
		w->dtype = t->dtype;
	if (w->dtype == t->dtype)
		return 0;
	return sf_fail(err, -EBADMSG, "a part of dtype %s of a tensor of %s",
	               sf_dtype_info((enum sf_dtype)t->dtype)->torch,
	               sf_dtype_info((enum sf_dtype)w->dtype)->torch);
}

/* ---- DTensor ---- */

/* A mesh's sizes. Of 2.13 its layout has axes, before that shapes; before 2.9 there is a tensor of it. */
static int mesh_sizes(const struct sf_pv *mesh, uint64_t *ret, unsigned *ret_n)
{
	const struct sf_pv *layout = attr(mesh, "_layout"), *axes = seq_of(attr(layout, "axes"));
	struct sf_torch_tensor t;
	uint64_t part[MESH_DIMS_MAX];
	unsigned n;

	if (!axes)
		axes = seq_of(attr(layout, "shape"));
	if (!axes)
		axes = seq_of(attr(layout, "sizes"));
	if (!axes) {
		mesh = attr(mesh, "mesh");
		if (!mesh || sf_torch_tensor_from_pv(mesh, &t, NULL) != 1 || t.ndim > MESH_DIMS_MAX)
			return -1;
		memcpy(ret, t.shape, t.ndim * sizeof(*ret));
		*ret_n = t.ndim;
		return 0;
	}
	if (axes->seq.n > MESH_DIMS_MAX)
		return -1;
	for (size_t i = 0; i < axes->seq.n; i++) {
		const struct sf_pv *axis = axes->seq.at[i], *of = attr(axis, "shape");
		if (sf_pv_u64(axis, &ret[i]))
			continue;
		/* one dimension may be made of several */
		if (numbers(of ? of : axis, part, MESH_DIMS_MAX, &n) < 0)
			return -1;
		ret[i] = 1;
		for (unsigned k = 0; k < n; k++)
			if (!sf_mul(ret[i], part[k], &ret[i]))
				return -1;
	}
	*ret_n = (unsigned)axes->seq.n;
	return 0;
}

static int placement_of(const struct sf_pv *v, unsigned ndim, struct cut *ret, struct sf_error *err)
{
	const char *cls = class_of(v);
	uint64_t dim, factor = 1;

	*ret = (struct cut){ .factor = 1 };
	if (!cls)
		return sf_fail(err, -EBADMSG, "a DTensor with a placement that is none");
	if (strcmp(cls, "Replicate") == 0)
		return 0;
	if (strcmp(cls, "Shard") != 0 && strcmp(cls, "_StridedShard") != 0)
		return sf_fail(err, -ENOTSUP, "a DTensor placed %.60s, which no checkpoint holds",
		               cls);
	ret->what = *cls == '_' ? STRIDED : SHARD;
	if (!attr(v, "dim") || !sf_pv_u64(attr(v, "dim"), &dim) || dim >= ndim)
		return sf_fail(err, -EBADMSG, "a DTensor of %u dimensions cut along another one",
		               ndim);
	if (ret->what == STRIDED &&
	    (!attr(v, "split_factor") || !sf_pv_u64(attr(v, "split_factor"), &factor) || !factor))
		return sf_fail(err, -EBADMSG, "a DTensor cut in strides that are not told");
	ret->dim = (unsigned)dim;
	ret->factor = factor;
	return 0;
}

/* -ENODATA: the rank is none of the mesh. */
static int cuts_of(const struct sf_pv *spec, unsigned ndim, struct cut *cut, unsigned *ret_n,
                   struct sf_error *err)
{
	const struct sf_pv *mesh = attr(spec, "mesh"), *at = attr(mesh, "_coordinate_on_dim"),
			   *placements = seq_of(attr(spec, "placements"));
	uint64_t size[MESH_DIMS_MAX], coordinate[MESH_DIMS_MAX];
	unsigned nsizes, n;

	if (!placements || !mesh || mesh_sizes(mesh, size, &nsizes) < 0)
		return sf_fail(err, -EBADMSG, "a DTensor without placements, or without a mesh");
	if (at && at->kind == SF_PV_NONE)
		return -ENODATA;
	if (numbers(at, coordinate, MESH_DIMS_MAX, &n) < 0)
		return sf_fail(err, -ENOTSUP,
		               "a DTensor's mesh does not say where its rank stands");
	if (n != nsizes || placements->seq.n != n)
		return sf_fail(err, -EBADMSG,
		               "a DTensor with %zu placements, on a mesh of %u dimensions, at %u "
		               "coordinates",
		               placements->seq.n, nsizes, n);
	for (unsigned i = 0; i < n; i++) {
		int r = placement_of(placements->seq.at[i], ndim, &cut[i], err);
		if (r < 0)
			return r;
		if (coordinate[i] >= size[i])
			return sf_fail(err, -EBADMSG,
			               "a DTensor at coordinate %" PRIu64 " of a mesh of %" PRIu64,
			               coordinate[i], size[i]);
		cut[i].n = size[i];
		cut[i].at = coordinate[i];
	}
	*ret_n = n;
	return 0;
}

/*
 * In which order the mesh's dimensions cut dimension @dim of the tensor: a factor says how many pieces
 * there were before (of FSDP over TP, TP cuts first, but stands last). -1: no order has these factors.
 */
static int order_of(const struct cut *cut, unsigned n, unsigned dim, unsigned order[MESH_DIMS_MAX],
                    unsigned *ret_n)
{
	unsigned norder = 0, at;

	for (unsigned i = n; i-- > 0;) {
		uint64_t before = 1;
		if (cut[i].what == REPLICATE || cut[i].dim != dim)
			continue;
		for (at = 0; at < norder && before != cut[i].factor; at++)
			if (!sf_mul(before, cut[order[at]].n, &before))
				return -1;
		if (before != cut[i].factor)
			return -1;
		memmove(order + at + 1, order + at, (norder - at) * sizeof(*order));
		order[at] = i;
		norder++;
	}
	*ret_n = norder;
	return 0;
}

/* The runs of dimension @dim that the rank has, by that order. */
static int cut_in_order(const struct cut *cut, unsigned n, unsigned dim, uint64_t len,
                        struct rankfiles_runs *ret)
{
	unsigned order[MESH_DIMS_MAX], norder;
	int r = order_of(cut, n, dim, order, &norder);

	ret->n = 0;
	if (r < 0)
		return 1;
	r = rankfiles_runs_push(ret, (struct rankfiles_run){ 0, len });
	for (unsigned i = 0; i < norder && r >= 0; i++)
		r = rankfiles_runs_chunk(ret, cut[order[i]].n, cut[order[i]].at);
	return r;
}

/* The same as the placements stand, from the first to the last. */
static int cut_as_placed(const struct cut *cut, unsigned n, unsigned dim, uint64_t len,
                         struct rankfiles_runs *ret)
{
	int r;

	ret->n = 0;
	r = rankfiles_runs_push(ret, (struct rankfiles_run){ 0, len });
	for (unsigned i = 0; i < n && r >= 0; i++) {
		if (cut[i].what == REPLICATE || cut[i].dim != dim)
			continue;
		r = cut[i].what == SHARD
		            ? rankfiles_runs_chunk(ret, cut[i].n, cut[i].at)
		            : rankfiles_runs_strided(ret, cut[i].factor, cut[i].n, cut[i].at);
	}
	return r;
}

static int runs_of(const struct cut *cut, unsigned n, unsigned dim, uint64_t len, uint64_t local,
                   struct rankfiles_runs *ret, struct sf_error *err)
{
	int r = cut_in_order(cut, n, dim, len, ret);

	if (r > 0 || (r == 0 && rankfiles_runs_len(ret) != local))
		r = cut_as_placed(cut, n, dim, len, ret);
	if (r == -E2BIG)
		return sf_fail(err, r, "a DTensor in more than %d pieces along dimension %u",
		               RANKFILES_RUNS_MAX, dim);
	if (r < 0)
		return sf_fail(err, r, "no memory for the pieces of a DTensor");
	if (rankfiles_runs_len(ret) != local)
		return sf_fail(err, -EBADMSG,
		               "a DTensor whose rank is to have %" PRIu64 " of %" PRIu64
		               " along dimension %u, and has %" PRIu64,
		               rankfiles_runs_len(ret), len, dim, local);
	return 0;
}

/* Every combination of the dimensions' runs is a box. */
static int each_box(const struct rankfiles_runs *runs, const struct sf_torch_tensor *local,
                    int (*each)(void *arg, const struct rankfiles_piece *piece), void *arg,
                    struct sf_error *err)
{
	size_t at[SF_DIMS_MAX] = { 0 };
	uint64_t boxes = 1;
	unsigned d;
	int r = 0;

	for (d = 0; d < local->ndim; d++)
		if (!sf_mul(boxes, runs[d].n, &boxes) || boxes > RANKFILES_RUNS_MAX)
			return sf_fail(err, -E2BIG, "a DTensor in more than %d boxes",
			               RANKFILES_RUNS_MAX);
	for (; boxes && r >= 0; boxes--) {
		struct rankfiles_piece p = { .t = *local };
		for (d = 0; d < local->ndim; d++) {
			const struct rankfiles_run *run = &runs[d].at[at[d]];
			uint64_t before = 0;
			for (size_t i = 0; i < at[d]; i++)
				before += runs[d].at[i].len;
			p.origin[d] = run->start;
			p.t.shape[d] = run->len;
			/* inside the local tensor, whose numbers were checked */
			p.t.storage_off += before * (uint64_t)local->stride[d];
		}
		r = each(arg, &p);
		for (d = local->ndim; d-- > 0 && ++at[d] == runs[d].n;)
			at[d] = 0;
	}
	return r;
}

static int split_dtensor(const struct split *s, struct rankfiles_whole *w,
                         int (*each)(void *arg, const struct rankfiles_piece *piece), void *arg,
                         struct sf_error *err)
{
	const struct sf_pv *local = slot(s->state, "_local_tensor"),
			   *spec = slot(s->state, "_spec");
	struct rankfiles_runs runs[SF_DIMS_MAX] = { 0 };
	struct cut cut[MESH_DIMS_MAX];
	struct sf_torch_tensor t;
	bool empty = false;
	unsigned ncuts = 0;
	int r = whole_of(s, s->shape, w, err);

	if (r < 0)
		return r;
	if (!local || !spec)
		return sf_fail(err, -EBADMSG, "a DTensor without a local tensor, or a spec");
	r = sf_torch_tensor_from_pv(local, &t, err);
	if (r <= 0)
		return r < 0 ? r : sf_fail(err, -ENOTSUP, "a DTensor whose local one is not dense");
	r = check_dtype(w, &t, err);
	if (r >= 0)
		r = cuts_of(spec, w->ndim, cut, &ncuts, err);
	if (r < 0 || !each)
		return r == -ENODATA ? 0 : r;
	for (unsigned d = 0; d < t.ndim; d++)
		empty = empty || t.shape[d] == 0;
	if (t.ndim != w->ndim)
		return empty ? 0
		             : sf_fail(err, -EBADMSG,
		                       "a DTensor of %u dimensions, and its local one of %u",
		                       w->ndim, t.ndim);
	for (unsigned d = 0; d < t.ndim && r >= 0; d++)
		r = runs_of(cut, ncuts, d, w->shape[d], t.shape[d], &runs[d], err);
	if (r >= 0 && !empty)
		r = each_box(runs, &t, each, arg, err);
	for (unsigned d = 0; d < t.ndim; d++)
		rankfiles_runs_release(&runs[d]);
	return r;
}

/* ---- ShardedTensor ---- */

static int shard_piece(const struct sf_pv *shard, struct rankfiles_whole *w,
                       struct rankfiles_piece *ret, struct sf_error *err)
{
	const struct sf_pv *state = shard->kind == SF_PV_OBJECT ? shard->call.state : NULL,
			   *tensor = state ? slot(state, "tensor") : NULL,
			   *meta = state ? slot(state, "metadata") : NULL;
	uint64_t size[SF_DIMS_MAX], end;
	unsigned norigin, nsize;
	int r;

	meta = meta && meta->kind == SF_PV_OBJECT ? meta->call.state : NULL;
	if (!tensor || !meta ||
	    numbers(slot(meta, "shard_offsets"), ret->origin, SF_DIMS_MAX, &norigin) < 0 ||
	    numbers(slot(meta, "shard_sizes"), size, SF_DIMS_MAX, &nsize) < 0)
		return sf_fail(err, -EBADMSG, "a ShardedTensor's shard without a tensor or a box");
	r = sf_torch_tensor_from_pv(tensor, &ret->t, err);
	if (r <= 0)
		return r < 0 ? r : sf_fail(err, -ENOTSUP, "a shard that is no dense tensor");
	if (norigin != w->ndim || nsize != w->ndim || ret->t.ndim != w->ndim)
		return sf_fail(err, -EBADMSG,
		               "a ShardedTensor of %u dimensions with a shard of %u at %u", w->ndim,
		               ret->t.ndim, norigin);
	for (unsigned d = 0; d < w->ndim; d++)
		if (size[d] != ret->t.shape[d] || !sf_add(ret->origin[d], size[d], &end) ||
		    end > w->shape[d])
			return sf_fail(err, -EBADMSG,
			               "a ShardedTensor's shard of %" PRIu64 " (told as %" PRIu64
			               ") at %" PRIu64 " of %" PRIu64 " along dimension %u",
			               ret->t.shape[d], size[d], ret->origin[d], w->shape[d], d);
	return check_dtype(w, &ret->t, err);
}

/* Its state: (local shards, metadata, process group, sharding spec, …). */
static int split_sharded(const struct split *s, struct rankfiles_whole *w,
                         int (*each)(void *arg, const struct rankfiles_piece *piece), void *arg,
                         struct sf_error *err)
{
	const struct sf_pv *shards, *meta, *shape = s->shape;
	struct rankfiles_piece p;
	int r;

	if (s->state->kind != SF_PV_TUPLE || s->state->seq.n < 2 ||
	    !(shards = seq_of(s->state->seq.at[0])))
		return sf_fail(err, -EBADMSG, "a ShardedTensor without its shards");
	meta = s->state->seq.at[1];
	if (!shape && meta->kind == SF_PV_OBJECT && meta->call.state)
		shape = slot(meta->call.state, "size");
	r = whole_of(s, shape, w, err);
	for (size_t i = 0; i < shards->seq.n && r >= 0; i++) {
		bool empty = false;
		r = shard_piece(shards->seq.at[i], w, &p, err);
		for (unsigned d = 0; r >= 0 && d < w->ndim; d++)
			empty = empty || p.t.shape[d] == 0;
		if (r >= 0 && each && !empty)
			r = each(arg, &p);
	}
	return r;
}

int rankfiles_split(const struct sf_pv *v, struct rankfiles_whole *ret,
                    int (*each)(void *arg, const struct rankfiles_piece *piece), void *arg,
                    struct sf_error *err)
{
	struct split s;
	int r;

	if (!split_of(v, &s))
		return sf_fail(err, -EBADMSG, "neither a DTensor nor a ShardedTensor");
	r = s.dtensor ? split_dtensor(&s, ret, each, arg, err)
	              : split_sharded(&s, ret, each, arg, err);
	return r < 0 ? r : 0;
}

static int first_piece(void *arg, const struct rankfiles_piece *p)
{
	struct rankfiles_place *at = arg;

	if (at->extent || !p->t.ndim)
		return 0;
	at->off = p->t.storage_off;
	at->origin = p->origin[0];
	at->extent = p->t.shape[0];
	memcpy(at->storage, p->t.storage_key->str.at,
	       SF_MIN(p->t.storage_key->str.len, sizeof(at->storage)));
	return 0;
}

bool rankfiles_place(const struct sf_pv *v, struct rankfiles_place *ret)
{
	struct rankfiles_piece p = { .origin = { 0 } };
	struct rankfiles_whole w;

	memset(ret, 0, sizeof(*ret));
	if (rankfiles_is_split(v)) {
		if (rankfiles_split(v, &w, first_piece, ret, NULL) < 0)
			return false;
	} else if (sf_torch_tensor_from_pv(v, &p.t, NULL) == 1) {
		first_piece(ret, &p);
	}
	return ret->extent > 0;
}
