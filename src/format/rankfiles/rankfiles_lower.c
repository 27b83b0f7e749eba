#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/rankfiles/rankfiles_lower.h"
#include "format/rankfiles/rankfiles_split.h"
#include "format/torch/torch_lower.h"

#define KEY_MAX (64u << 10)
#define TOLD_MAX 20 /* warnings of one kind, then their number */

SF_VEC(numbers, uint64_t);
SF_VEC(tensors, uint32_t);

struct lowering {
	struct sf_ckpt_builder *b;
	struct rankfiles_join *j;
	const char *group;
	const struct rankfiles_names *names;
	struct sf_error *err;
	struct sf_buf name; /* of the key that is lowered */
	struct sf_walk_path path;
	struct sf_torch_ties *ties; /* by rank */
	/* the tensor that is open */
	const struct rankfiles_leaf *leaf;
	uint32_t tensor, nchunks;
	struct numbers box; /* origin and extent of each chunk, 2 * ndim a row */
	size_t row;
	struct sf_map boxes;
	/* split tensors so far, for those that are tied: by their first part's place */
	struct tensors split; /* key, tensor */
	struct sf_map splits;
	uint64_t told, told_more;
};

static const char *file_of(const struct lowering *l, const struct rankfiles_leaf *leaf)
{
	return l->j->part[leaf->rank].file->name;
}

static const struct rankfiles_leaf *next_of(const struct lowering *l,
                                            const struct rankfiles_leaf *leaf)
{
	return leaf->next == SF_NONE ? NULL : &l->j->leaves.at[leaf->next];
}

/* What the others do not agree with. */
static int warn(struct lowering *l, const struct rankfiles_leaf *leaf, const char *code,
                const char *why)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = KEY_MAX };

	if (l->told >= TOLD_MAX) {
		l->told_more++;
		return 0;
	}
	l->told++;
	sf_escape_text(&name, (const char *)l->name.at, SF_MIN(l->name.len, 120u));
	return sf_ckpt_builder_warn(l->b, NULL, code, "'%s': '%s': %s", file_of(l, leaf),
	                            sf_buf_cstr(&name), why);
}

/* ---- names ---- */

/* An element of the path that is the optimizer's number of a parameter is that parameter's name. */
static struct sf_path_elem element(const struct lowering *l, const struct rankfiles_key *k,
                                   uint32_t i)
{
	const struct sf_path_elem *e = &k->path[i];
	uint64_t id = 0;

	if (!l->names || !l->names->n || i != 1 || e->kind != SF_PATH_INT || e->len > 9 ||
	    k->npath < 3 || k->path[0].len != 5 || memcmp(k->path[0].s, "state", 5) != 0)
		return *e;
	for (uint32_t d = 0; d < e->len; d++) {
		if (e->s[d] < '0' || e->s[d] > '9')
			return *e;
		id = id * 10 + (uint64_t)(e->s[d] - '0');
	}
	if (id >= l->names->n)
		return *e;
	return (struct sf_path_elem){ l->names->key[id]->name, l->names->key[id]->len,
		                      SF_PATH_TEXT };
}

/* The key's whole name and path; below rank.R where it is of one rank alone. */
static int set_name(struct lowering *l, const struct rankfiles_key *k,
                    const struct rankfiles_leaf *of, char rank[16])
{
	struct sf_path_elem *p;
	size_t n = 0;

	if (sf_walk_path_reserve(&l->path, k->npath + 3) < 0)
		return sf_fail(l->err, -ENOMEM, "no memory for a path");
	p = l->path.at;
	if (of) {
		p[n++] = (struct sf_path_elem){ "rank", 4, SF_PATH_TEXT };
		snprintf(rank, 16, "%" PRIu32, of->rank);
		p[n++] = (struct sf_path_elem){ rank, (uint32_t)strlen(rank), SF_PATH_INT };
	}
	p[n++] = (struct sf_path_elem){ l->group, (uint32_t)strlen(l->group), SF_PATH_TEXT };
	for (uint32_t i = 0; i < k->npath; i++)
		p[n++] = element(l, k, i);
	l->path.n = n;
	sf_buf_reset(&l->name);
	for (size_t i = 0; i < n; i++) {
		sf_buf_str(&l->name, i ? "." : "");
		sf_buf_add(&l->name, p[i].s, p[i].len);
	}
	sf_buf_cstr(&l->name);
	return sf_buf_check(&l->name) < 0
	               ? sf_fail(l->err, sf_buf_check(&l->name), "a key of over %u bytes", KEY_MAX)
	               : 0;
}

static int set_path(struct lowering *l)
{
	return sf_ckpt_builder_path(l->b, (const char *)l->name.at, l->name.len, l->path.at,
	                            l->path.n, l->err);
}

static bool is_there(const struct lowering *l)
{
	bool is_tensor;

	return sf_ckpt_builder_find(l->b, (const char *)l->name.at, l->name.len, &is_tensor) !=
	       SF_NONE;
}

/* ---- one leaf ---- */

/* Of a list of parameters the number is the name, as the state's is. */
static struct sf_pv *value_of(const struct lowering *l, const struct rankfiles_key *k,
                              struct sf_pv *v, struct sf_pv *own)
{
	uint64_t id;

	if (!l->names || !l->names->n || k->npath != 4 || k->path[0].len != 12 ||
	    memcmp(k->path[0].s, "param_groups", 12) != 0 || k->path[2].len != 6 ||
	    memcmp(k->path[2].s, "params", 6) != 0 || !sf_pv_u64(v, &id) || id >= l->names->n)
		return v;
	*own = (struct sf_pv){ .kind = SF_PV_STR };
	own->str.at = l->names->key[id]->name;
	own->str.len = l->names->key[id]->len;
	return own;
}

static int lower_leaf(struct lowering *l, const struct rankfiles_key *k,
                      const struct rankfiles_leaf *leaf)
{
	struct sf_torch_part *part = &l->j->part[leaf->rank];
	const char *key = (const char *)l->name.at;
	struct sf_torch_tensor t;
	struct sf_pv own;
	int r;

	if (is_there(l))
		return warn(l, leaf, "same-name", "another key has that name: not shown");
	if (leaf->what == SF_WALK_TENSOR && sf_torch_tensor_from_pv(leaf->v, &t, NULL) == 1)
		r = sf_torch_lower_tensor(l->b, part, key, l->name.len, &t, &l->ties[leaf->rank],
		                          NULL, l->err);
	else
		r = sf_torch_lower_value(l->b, part, key, l->name.len,
		                         value_of(l, k, leaf->v, &own), l->err);
	return r < 0 ? r : set_path(l);
}

/* ---- a tensor that is split ---- */

static int same_box(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct lowering *l = arg;

	return memcmp(l->box.at + value * l->row, key, len) == 0;
}

/* A box that a lower rank has too is a replica. */
static int take_piece(void *arg, const struct rankfiles_piece *p)
{
	struct lowering *l = arg;
	const unsigned ndim = p->t.ndim;
	struct sf_error why = SF_ERROR_INIT;
	uint64_t *row;
	int r;

	l->row = 2 * (size_t)ndim;
	if (numbers_reserve(&l->box, (l->nchunks + 1) * l->row) < 0)
		return sf_fail(l->err, -ENOMEM, "no memory for %u boxes", l->nchunks);
	row = l->box.at + l->nchunks * l->row;
	if (ndim) {
		memcpy(row, p->origin, ndim * sizeof(*row));
		memcpy(row + ndim, p->t.shape, ndim * sizeof(*row));
	}
	if (!ndim && l->nchunks)
		return 0;
	if (ndim && sf_map_add(&l->boxes, (const char *)row, l->row * sizeof(*row), l->nchunks,
	                       same_box, l, &r) != SF_MAP_NONE)
		return 0;
	if (ndim && r < 0)
		return sf_fail(l->err, r, "no memory for %u boxes", l->nchunks);
	r = sf_ckpt_builder_chunk(l->b, p->origin, p->t.shape, l->err);
	if (r < 0)
		return r;
	r = sf_torch_lower_item(l->b, &l->j->part[l->leaf->rank], l->tensor, l->nchunks++, &p->t,
	                        &why);
	if (r == -EBADMSG) /* the box stays without an item, which is damage */
		return warn(l, l->leaf, "malformed-tensor", why.msg);
	return r < 0 ? sf_fail(l->err, r, "%s", why.msg) : 0;
}

static bool is_malformed(int code)
{
	return code == -EBADMSG || code == -ENOTSUP || code == -E2BIG;
}

static bool same_whole(const struct rankfiles_whole *a, const struct rankfiles_whole *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) == 0;
}

/* This rank's part; what contradicts itself or @w is told, and leaves a hole. */
static int take_part(struct lowering *l, const struct rankfiles_leaf *leaf,
                     const struct rankfiles_whole *w)
{
	struct sf_error why = SF_ERROR_INIT;
	struct rankfiles_whole own;
	int r;

	if (!rankfiles_is_split(leaf->v))
		return warn(l, leaf, "ranks-disagree",
		            "whole here, and a part of a DTensor in another rank's file: left "
		            "out");
	r = rankfiles_split(leaf->v, &own, NULL, NULL, &why);
	if (is_malformed(r))
		return warn(l, leaf, "malformed-tensor", why.msg);
	if (r >= 0 && !same_whole(&own, w))
		return warn(l, leaf, "ranks-disagree",
		            "its shape or dtype is not that of the other ranks: left out");
	l->leaf = leaf;
	if (r >= 0)
		r = rankfiles_split(leaf->v, &own, take_piece, l, &why);
	if (is_malformed(r) && why.msg[0])
		return warn(l, leaf, "malformed-tensor", why.msg);
	return r < 0 && why.msg[0] ? sf_fail(l->err, r, "%s", why.msg) : r;
}

/* Is every rank's part of @k the same as its part of @of, down to the storage? */
static bool is_tied(const struct lowering *l, const struct rankfiles_key *k,
                    const struct rankfiles_key *of)
{
	const struct rankfiles_leaf *a = &l->j->leaves.at[k->first],
				    *b = &l->j->leaves.at[of->first];

	for (; a && b; a = next_of(l, a), b = next_of(l, b))
		if (a->rank != b->rank || !rankfiles_same_value(a->v, b->v))
			return false;
	return !a && !b;
}

/* Where its first part lies: tied ones lie there too. */
struct first {
	struct rankfiles_place at;
	uint64_t rank;
};

static bool first_of(const struct lowering *l, const struct rankfiles_key *k, struct first *ret)
{
	const struct rankfiles_leaf *leaf = &l->j->leaves.at[k->first];

	ret->rank = leaf->rank;
	return rankfiles_place(leaf->v, &ret->at);
}

static int same_place(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct lowering *l = arg;
	struct first at;

	return first_of(l, &l->j->keys.at[l->split.at[2 * value]], &at) &&
	       memcmp(&at, key, len) == 0;
}

static int tie(struct lowering *l, const struct rankfiles_key *k)
{
	const uint32_t next = (uint32_t)(l->split.n / 2);
	struct first at;
	uint32_t has;
	int r;

	if (!first_of(l, k, &at))
		return 0;
	if (tensors_push(&l->split, (uint32_t)(k - l->j->keys.at)) < 0 ||
	    tensors_push(&l->split, l->tensor) < 0)
		return sf_fail(l->err, -ENOMEM, "no memory for %u tensors", next);
	has = sf_map_add(&l->splits, (const char *)&at, sizeof(at), next, same_place, l, &r);
	if (has == SF_MAP_NONE)
		return r < 0 ? sf_fail(l->err, r, "no memory for %u tensors", next) : 0;
	l->split.n -= 2;
	return is_tied(l, k, &l->j->keys.at[l->split.at[2 * has]])
	               ? sf_ckpt_builder_tie(l->b, l->tensor, l->split.at[2 * has + 1], l->err)
	               : 0;
}

static int lower_split(struct lowering *l, const struct rankfiles_key *k)
{
	const struct rankfiles_leaf *leaf = &l->j->leaves.at[k->first], *bad = NULL;
	struct sf_error why = SF_ERROR_INIT;
	struct rankfiles_whole w = { 0 };
	int r = 0;

	/* the first rank that says what the whole is */
	for (; leaf && !w.dtype; leaf = next_of(l, leaf)) {
		if (!rankfiles_is_split(leaf->v))
			continue;
		bad = leaf;
		if (rankfiles_split(leaf->v, &w, NULL, NULL, &why) < 0)
			w.dtype = SF_DTYPE_NONE;
	}
	if (!w.dtype)
		return warn(l, bad, "malformed-tensor",
		            why.msg[0] ? why.msg : "its dtype is not known: left out");
	if (is_there(l))
		return warn(l, bad, "same-name", "another key has that name: not shown");
	r = sf_ckpt_builder_tensor(l->b, (const char *)l->name.at, l->name.len,
	                           (enum sf_dtype)w.dtype, w.shape, w.ndim, &l->tensor, l->err);
	l->nchunks = 0;
	sf_map_release(&l->boxes);
	for (leaf = &l->j->leaves.at[k->first]; leaf && r >= 0; leaf = next_of(l, leaf))
		r = take_part(l, leaf, &w);
	if (r >= 0)
		r = tie(l, k);
	return r < 0 ? r : set_path(l);
}

/* ---- a key ---- */

/* Do all ranks that have it have it alike? */
static bool is_same(const struct lowering *l, const struct rankfiles_key *k)
{
	const struct rankfiles_leaf *first = &l->j->leaves.at[k->first], *leaf = first;
	struct sf_torch_tensor a, b;
	bool tensor =
		first->what == SF_WALK_TENSOR && sf_torch_tensor_from_pv(first->v, &a, NULL) == 1;

	while ((leaf = next_of(l, leaf))) {
		if (leaf->what != first->what)
			return false;
		if (!tensor && !rankfiles_same_value(first->v, leaf->v))
			return false;
		if (tensor &&
		    (sf_torch_tensor_from_pv(leaf->v, &b, NULL) != 1 || a.dtype != b.dtype ||
		     a.ndim != b.ndim || memcmp(a.shape, b.shape, a.ndim * sizeof(*a.shape)) != 0))
			return false;
	}
	return true;
}

static int lower_per_rank(struct lowering *l, const struct rankfiles_key *k)
{
	const struct rankfiles_leaf *leaf = &l->j->leaves.at[k->first];
	char rank[16];
	int r = warn(l, leaf, "ranks-differ",
	             "not the same in the files of all ranks: each rank's is below 'rank'");

	for (; leaf && r >= 0; leaf = next_of(l, leaf)) {
		r = set_name(l, k, leaf, rank);
		if (r >= 0)
			r = lower_leaf(l, k, leaf);
	}
	return r;
}

/* A key that some ranks' files lack: of a split tensor the holes tell whether that matters. */
static int check_all_have_it(struct lowering *l, const struct rankfiles_key *k, bool split)
{
	const struct rankfiles_leaf *leaf = &l->j->leaves.at[k->first];
	uint32_t rank = 0;
	char why[120];

	if (split || k->nleaves == l->j->nparts)
		return 0;
	for (; leaf && leaf->rank == rank; leaf = next_of(l, leaf))
		rank++;
	if (rank < l->j->nparts && l->j->part[rank].r < 0)
		return 0; /* that was told of the file */
	snprintf(why, sizeof(why),
	         "%" PRIu32 " of %" PRIu32 " ranks have it, rank %" PRIu32 " does not", k->nleaves,
	         l->j->nparts, rank);
	return warn(l, &l->j->leaves.at[k->first], "ranks-disagree", why);
}

static int lower_key(struct lowering *l, const struct rankfiles_key *k)
{
	bool split = false;
	int r = set_name(l, k, NULL, NULL);

	for (const struct rankfiles_leaf *f = &l->j->leaves.at[k->first]; f && !split;
	     f = next_of(l, f))
		split = rankfiles_is_split(f->v);
	if (r >= 0)
		r = check_all_have_it(l, k, split);
	if (r < 0)
		return r;
	if (split)
		return lower_split(l, k);
	if (!is_same(l, k))
		return lower_per_rank(l, k);
	return lower_leaf(l, k, &l->j->leaves.at[k->first]);
}

int rankfiles_lower(struct sf_ckpt_builder *b, const char *group, struct rankfiles_join *j,
                    const struct rankfiles_names *names, struct sf_error *err)
{
	struct lowering l = {
		.b = b, .j = j, .group = group, .names = names, .err = err, .name.limit = KEY_MAX
	};
	int r = 0;

	l.ties = calloc(SF_MAX(j->nparts, 1u), sizeof(*l.ties));
	if (!l.ties)
		return sf_fail(err, -ENOMEM, "no memory for %u ranks", j->nparts);
	for (size_t i = 0; i < j->keys.n && r >= 0; i++)
		r = lower_key(&l, &j->keys.at[i]);
	if (r >= 0 && l.told_more)
		r = sf_ckpt_builder_warn(b, NULL, "ranks-disagree",
		                         "%s: %" PRIu64 " more keys that ranks do not agree on",
		                         group, l.told_more);
	for (uint32_t i = 0; i < j->nparts; i++)
		sf_torch_ties_release(&l.ties[i]);
	free(l.ties);
	sf_buf_release(&l.name);
	sf_walk_path_release(&l.path);
	numbers_release(&l.box);
	sf_map_release(&l.boxes);
	tensors_release(&l.split);
	sf_map_release(&l.splits);
	return r < 0 ? r : 0;
}
