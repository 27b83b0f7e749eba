#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/olmo/olmo.h"
#include "format/torch/torch_lower.h"
#include "store/source.h"

/*
 * FSDP's flat parameters as each rank holds them, and what torch noted of them. Source: allenai/OLMo
 * olmo/checkpoint.py (LocalShardedCheckpointer), 0.6; torch/distributed/fsdp/_flat_param.py, 2.0
 * (_shard_indices) and 2.1 (_shard_param_infos).
 */

#define META "metadata.yaml"
#define META_MAX 65536
#define FIELD "flat_param."
#define WRAPPED "_fsdp_wrapped_module."

/* A flat parameter of one rank: what is said of it, by parameter. */
struct handle {
	uint32_t rank;
	const struct sf_torch_part *part;
	struct sf_torch_tensor data;
	const struct sf_torch_record *storage;
	const struct sf_pv *fqns, *shapes, *infos;
	const struct sf_pv *indices, *offsets; /* torch before 2.1 */
	const struct sf_pv *module;
};

static const struct sf_pv *field(const struct sf_pv *handle, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), FIELD "%s", name);
	return sf_pv_get(handle, text);
}

static bool is_seq(const struct sf_pv *v)
{
	return v && (v->kind == SF_PV_LIST || v->kind == SF_PV_TUPLE);
}

/* Those of a tuple, a list, a torch.Size or a named tuple. */
static const struct sf_pv *items_of(const struct sf_pv *v)
{
	if (is_seq(v))
		return v;
	if (!v || (v->kind != SF_PV_CALL && v->kind != SF_PV_OBJECT))
		return NULL;
	v = v->call.args;
	if (is_seq(v) && v->seq.n == 1 && is_seq(v->seq.at[0]))
		v = v->seq.at[0];
	return is_seq(v) ? v : NULL;
}

static int bad(struct olmo_load *l, const struct handle *h, const char *what)
{
	return sf_fail(l->err, -EBADMSG, "'%s': %s", h->part->file->name, what);
}

/* "_fsdp_wrapped_module." is taken out wherever it stands. */
static void put_name(struct sf_buf *out, const struct sf_pv *s)
{
	const size_t n = strlen(WRAPPED);

	for (size_t i = 0; i < s->str.len;) {
		if (s->str.len - i >= n && memcmp(s->str.at + i, WRAPPED, n) == 0) {
			i += n;
			continue;
		}
		sf_buf_byte(out, (uint8_t)s->str.at[i++]);
	}
}

static int set_name(struct sf_buf *name, const struct handle *h, size_t i)
{
	sf_buf_reset(name);
	put_name(name, h->module);
	if (name->len && name->at[name->len - 1] != '.')
		sf_buf_byte(name, '.');
	put_name(name, h->fqns->seq.at[i]);
	return sf_buf_check(name);
}

static int open_handle(struct olmo_load *l, const struct sf_pv *v, struct handle *h)
{
	const struct sf_pv *data = field(v, "data");

	h->fqns = field(v, "_fqns");
	h->shapes = field(v, "_shapes");
	h->infos = field(v, "_shard_param_infos");
	h->indices = field(v, "_shard_indices");
	h->offsets = field(v, "_shard_param_offsets");
	if (!data || sf_torch_tensor_from_pv(data, &h->data, l->err) != 1 || h->data.ndim != 1 ||
	    (h->data.shape[0] > 1 && h->data.stride[0] != 1))
		return bad(l, h, "a flat parameter's data is no tensor of one dimension");
	if (!is_seq(h->fqns) || !is_seq(h->shapes) || h->fqns->seq.n != h->shapes->seq.n)
		return bad(l, h, "a flat parameter's names and shapes are not as many");
	for (size_t i = 0; i < h->fqns->seq.n; i++)
		if (h->fqns->seq.at[i]->kind != SF_PV_STR)
			return bad(l, h, "a parameter's name is no text");
	if (h->indices ? items_of(h->indices) == NULL || !is_seq(h->offsets)
	               : !is_seq(h->infos) || h->infos->seq.n != h->fqns->seq.n)
		return bad(l, h, "it is not said which parameters lie where in a flat one");
	h->storage =
		sf_torch_record_find(h->part->archive.storage, h->part->archive.nstorages,
	                             h->data.storage_key->str.at, h->data.storage_key->str.len);
	return h->storage ? 0 : bad(l, h, "the file lacks a flat parameter's data");
}

/* The elements [start, start + len) of parameter @i lie at element @at of the flat one. */
static int add_run(struct olmo_load *l, struct olmo_runs *params, const struct handle *h,
                   struct sf_buf *name, size_t i, uint64_t at, uint64_t start, uint64_t len)
{
	const struct sf_pv *dims = items_of(h->shapes->seq.at[i]);
	const uint64_t elem = sf_dtype_info((enum sf_dtype)h->data.dtype)->bytes;
	struct olmo_run run = {
		.place = h->part->place, .rank = h->rank, .start = start, .len = len
	};
	uint64_t shape[SF_DIMS_MAX] = { 0 };
	uint32_t tensor;
	int r;

	if (at > h->data.shape[0] || len > h->data.shape[0] - at)
		return bad(l, h, "a parameter's part passes the end of its flat one");
	if (!dims || dims->seq.n > SF_DIMS_MAX)
		return bad(l, h, "a parameter's shape is none");
	for (size_t d = 0; d < dims->seq.n; d++)
		if (!sf_pv_u64(dims->seq.at[d], &shape[d]))
			return bad(l, h, "a parameter's shape is none");
	run.off = h->storage->off + (h->data.storage_off + at) * elem;
	if (set_name(name, h, i) < 0)
		return sf_fail(l->err, -ENOMEM, "no memory for a name");
	r = olmo_runs_tensor(l, params, (const char *)name->at, name->len,
	                     (enum sf_dtype)h->data.dtype, shape, (unsigned)dims->seq.n, &tensor);
	return r < 0 ? r : olmo_runs_add(l, params, tensor, &run);
}

static int add_infos(struct olmo_load *l, struct olmo_runs *params, const struct handle *h,
                     struct sf_buf *name)
{
	int r = 0;

	for (size_t i = 0; i < h->fqns->seq.n && r >= 0; i++) {
		const struct sf_pv *v = items_of(h->infos->seq.at[i]);
		uint64_t at, len, start, last;
		if (!v || v->seq.n != 5 || v->seq.at[0]->kind != SF_PV_BOOL)
			return bad(l, h, "where a parameter lies is not said in five numbers");
		if (!v->seq.at[0]->b)
			continue;
		if (!sf_pv_u64(v->seq.at[1], &at) || !sf_pv_u64(v->seq.at[2], &len) ||
		    !sf_pv_u64(v->seq.at[3], &start) || !sf_pv_u64(v->seq.at[4], &last) ||
		    last < start || last - start != len - 1)
			return bad(l, h,
			           "the numbers of where a parameter lies contradict "
			           "each other");
		r = add_run(l, params, h, name, i, at, start, len);
	}
	return r;
}

/* The parameters from the first index on, one behind the other. */
static int add_offsets(struct olmo_load *l, struct olmo_runs *params, const struct handle *h,
                       struct sf_buf *name)
{
	const struct sf_pv *indices = items_of(h->indices);
	uint64_t first, at = 0;
	int r = 0;

	if (!indices->seq.n || !sf_pv_u64(indices->seq.at[0], &first))
		return bad(l, h, "it is not said which parameter is the first");
	for (size_t i = 0; i < h->offsets->seq.n && r >= 0; i++) {
		const struct sf_pv *v = items_of(h->offsets->seq.at[i]);
		uint64_t start, last;
		if (!v || v->seq.n != 2 || !sf_pv_u64(v->seq.at[0], &start) ||
		    !sf_pv_u64(v->seq.at[1], &last) || last < start || first >= h->fqns->seq.n ||
		    i >= h->fqns->seq.n - first)
			return bad(l, h,
			           "the numbers of where a parameter lies contradict "
			           "each other");
		r = add_run(l, params, h, name, (size_t)first + i, at, start, last - start + 1);
		at += last - start + 1;
	}
	return r;
}

static int add_rank(struct olmo_load *l, struct olmo_runs *params, const struct sf_torch_part *p,
                    uint32_t rank, struct sf_buf *name)
{
	struct handle h = { .rank = rank, .part = p };
	const struct sf_pv *modules = sf_pv_get(p->archive.root, "modules");
	int r = is_seq(modules) ? 0 : bad(l, &h, "it has no list of modules");

	for (size_t i = 0; r >= 0 && i < modules->seq.n; i++) {
		const struct sf_pv *handles = sf_pv_get(modules->seq.at[i], "handles");
		h.module = sf_pv_get(modules->seq.at[i], "name");
		if (!h.module || h.module->kind != SF_PV_STR || !is_seq(handles))
			return bad(l, &h, "a module has no name or no handles");
		for (size_t k = 0; r >= 0 && k < handles->seq.n; k++) {
			r = open_handle(l, handles->seq.at[k], &h);
			if (r >= 0)
				r = (h.indices ? add_offsets : add_infos)(l, params, &h, name);
		}
	}
	return r;
}

/* ---- the optimizer ---- */

struct optim {
	struct olmo_load *l;
	const struct olmo_runs *params;
	struct olmo_runs *states;
	const struct sf_pv *groups; /* of the first rank that has some */
	struct sf_buf name;
	uint64_t orphans; /* states of what their rank has not of the model */
};

/* The name of parameter number @id; NULL: no group has it. */
static const struct sf_pv *param_of(const struct sf_pv *groups, uint64_t id)
{
	for (size_t g = 0; is_seq(groups) && g < groups->seq.n; g++) {
		const struct sf_pv *names = sf_pv_get(groups->seq.at[g], "param_names"),
				   *ids = sf_pv_get(groups->seq.at[g], "params");
		uint64_t v;
		if (!is_seq(names) || !is_seq(ids) || names->seq.n != ids->seq.n || !ids->seq.n)
			continue;
		/* they are counted on, from the first of each group */
		if (sf_pv_u64(ids->seq.at[0], &v) && id >= v && id - v < ids->seq.n) {
			size_t i = (size_t)(id - v);
			if (sf_pv_u64(ids->seq.at[i], &v) && v == id &&
			    names->seq.at[i]->kind == SF_PV_STR)
				return names->seq.at[i];
		}
		for (size_t i = 0; i < ids->seq.n; i++)
			if (sf_pv_u64(ids->seq.at[i], &v) && v == id &&
			    names->seq.at[i]->kind == SF_PV_STR)
				return names->seq.at[i];
	}
	return NULL;
}

/* What a state has of one element only is every rank's: the first one's is taken, by way of a run that
 * is all of it. */
static int add_state(struct optim *o, struct sf_torch_part *p, uint32_t rank, uint32_t param,
                     const struct sf_torch_tensor *t)
{
	const struct olmo_tensor *of = &o->params->tensor.at[param];
	const struct olmo_run *run = olmo_runs_of(o->params, param, rank);
	const struct sf_torch_record *s =
		sf_torch_record_find(p->archive.storage, p->archive.nstorages,
	                             t->storage_key->str.at, t->storage_key->str.len);
	const uint64_t elem = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	struct olmo_run mine = { .place = p->place, .rank = rank, .len = 1 };
	const char *name = (const char *)o->name.at;
	uint32_t tensor;
	int r;

	if (!s || t->ndim > 1 || (t->ndim == 1 && t->shape[0] > 1 && t->stride[0] != 1))
		return sf_fail(o->l->err, -EBADMSG, "'%s': '%.*s' is no flat tensor", p->file->name,
		               (int)SF_MIN(o->name.len, (size_t)200), name);
	mine.off = s->off + t->storage_off * elem;
	if (t->ndim == 0) {
		if (olmo_runs_find(o->states, name, o->name.len) != SF_NONE)
			return 0;
		r = olmo_runs_tensor(o->l, o->states, name, o->name.len, (enum sf_dtype)t->dtype,
		                     NULL, 0, &tensor);
		return r < 0 ? r : olmo_runs_add(o->l, o->states, tensor, &mine);
	}
	if (!run) {
		o->orphans++;
		return 0;
	}
	if (run->len != t->shape[0])
		return sf_fail(o->l->err, -EBADMSG,
		               "'%s': '%.*s' has %" PRIu64 " elements, the rank %" PRIu64
		               " of its parameter",
		               p->file->name, (int)SF_MIN(o->name.len, (size_t)200), name,
		               t->shape[0], run->len);
	mine.start = run->start;
	mine.len = run->len;
	r = olmo_runs_tensor(o->l, o->states, name, o->name.len, (enum sf_dtype)t->dtype, of->shape,
	                     of->ndim, &tensor);
	return r < 0 ? r : olmo_runs_add(o->l, o->states, tensor, &mine);
}

static int add_states(struct optim *o, struct sf_torch_part *p, uint32_t rank, uint64_t id,
                      const struct sf_pv *states)
{
	const struct sf_pv *fqn = param_of(o->groups, id);
	struct sf_torch_tensor t;
	uint32_t param;
	size_t len;
	int r = 0;

	sf_buf_reset(&o->name);
	if (fqn)
		put_name(&o->name, fqn);
	param = fqn && sf_buf_check(&o->name) >= 0
	                ? olmo_runs_find(o->params, (const char *)o->name.at, o->name.len)
	                : SF_NONE;
	if (param == SF_NONE || states->kind != SF_PV_DICT)
		return sf_ckpt_builder_warn(o->l->b, NULL, "unread-value",
		                            "'%s': the optimizer's parameter %" PRIu64
		                            " is none of the model's",
		                            p->file->name, id);
	len = o->name.len;
	for (size_t i = 0; i + 1 < states->seq.n && r >= 0; i += 2) {
		const struct sf_pv *k = states->seq.at[i];
		if (k->kind != SF_PV_STR ||
		    sf_torch_tensor_from_pv(states->seq.at[i + 1], &t, NULL) != 1)
			continue;
		o->name.len = len;
		sf_buf_byte(&o->name, '.');
		sf_buf_add(&o->name, k->str.at, k->str.len);
		r = sf_buf_check(&o->name);
		if (r >= 0)
			r = add_state(o, p, rank, param, &t);
	}
	return r;
}

static int add_optim_rank(struct optim *o, struct sf_torch_part *p, uint32_t rank)
{
	const struct sf_pv *state = sf_pv_get(p->archive.root, "state");
	uint64_t id;
	int r = 0;

	if (!state || state->kind != SF_PV_DICT)
		return sf_fail(o->l->err, -EBADMSG, "'%s': it has no state", p->file->name);
	for (size_t i = 0; i + 1 < state->seq.n && r >= 0; i += 2)
		if (sf_pv_u64(state->seq.at[i], &id))
			r = add_states(o, p, rank, id, state->seq.at[i + 1]);
	return r;
}

static int lower_groups(struct olmo_load *l, struct sf_torch_part *p)
{
	const struct sf_path_elem prefix[2] = { { "optim", 5, SF_PATH_TEXT },
		                                { "param_groups", 12, SF_PATH_TEXT } };
	const struct sf_torch_lower lower = {
		.b = l->b, .part = p, .prefix = prefix, .nprefix = 2
	};
	struct sf_pv *groups = sf_pv_get(p->archive.root, "param_groups");

	return groups ? sf_torch_lower(&lower, groups, l->err) : 0;
}

static int load_optim(struct olmo_load *l, const struct olmo_runs *params, uint32_t world)
{
	SF_CLEANUP(olmo_runs_release) struct olmo_runs states = { 0 };
	struct optim o = {
		.l = l, .params = params, .states = &states, .name = { .limit = 65536 }
	};
	struct olmo_ranks ranks = { 0 };
	struct sf_torch_part *first = NULL;
	int r = olmo_ranks_open(l, "optim/", world, &ranks);

	for (uint32_t i = 0; i < ranks.n && r >= 0; i++) {
		if (ranks.part[i].r != 0)
			continue;
		if (!first) {
			first = &ranks.part[i];
			o.groups = sf_pv_get(first->archive.root, "param_groups");
		}
		r = add_optim_rank(&o, &ranks.part[i], i);
	}
	if (r >= 0 && o.orphans)
		r = sf_ckpt_builder_warn(l->b, NULL, "unread-value",
		                         "%" PRIu64 " parts of the optimizer's state are left out: "
		                         "where they belong only the rank's file in model/ says",
		                         o.orphans);
	if (r >= 0)
		r = olmo_runs_lower(l, &states, "optim", true);
	if (r >= 0 && first)
		r = lower_groups(l, first);
	sf_buf_release(&o.name);
	olmo_ranks_release(&ranks);
	return r;
}

/* "world_size: 3"; 0: it does not say. */
static uint32_t read_world(struct olmo_load *l)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	const struct sf_objinfo *f = sf_format_listed(l->files, l->nfiles, META);
	SF_FREE uint8_t *text = NULL;
	unsigned long world = 0;
	uint64_t len;
	const char *at;

	if (!f || l->store->ops->open(l->store, META, f, &src, NULL) < 0 ||
	    sf_source_read_all(src, META_MAX, SF_FETCH_METADATA, &text, &len, NULL) < 0)
		return 0;
	at = strstr((const char *)text, "world_size:");
	if (at && (at == (const char *)text || at[-1] == '\n'))
		world = strtoul(at + 11, NULL, 10);
	return world <= UINT32_C(1) << 20 ? (uint32_t)world : 0;
}

static bool has_optim(const struct olmo_load *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		if (olmo_rank_of(l->files[i].name, "optim/") >= 0)
			return true;
	return false;
}

int olmo_load_local(struct olmo_load *l)
{
	SF_CLEANUP(olmo_runs_release) struct olmo_runs params = { 0 };
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = 65536 };
	struct olmo_ranks ranks = { 0 };
	uint32_t world = read_world(l);
	int r = olmo_ranks_open(l, "model/", world, &ranks);

	for (uint32_t i = 0; i < ranks.n && r >= 0; i++)
		if (ranks.part[i].r == 0)
			r = add_rank(l, &params, &ranks.part[i], i, &name);
	if (r >= 0)
		r = olmo_runs_lower(l, &params, "model", false);
	olmo_ranks_release(&ranks);
	if (r >= 0 && has_optim(l))
		r = load_optim(l, &params, world);
	return r < 0 ? r : olmo_add_train(l);
}
