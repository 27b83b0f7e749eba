#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/rankfiles/rankfiles_lower.h"
#include "format/rankfiles/rankfiles_split.h"
#include "format/torch/torch_params.h"

#define PARAMS_MAX (1u << 24)
#define GROUPS_MAX 1024

void rankfiles_names_release(struct rankfiles_names *names)
{
	free(names->key);
	*names = (struct rankfiles_names){ 0 };
}

/* What a leaf is as a whole; false: no tensor. */
static bool whole_of(const struct rankfiles_leaf *leaf, struct rankfiles_whole *ret)
{
	struct sf_torch_tensor t;

	if (rankfiles_is_split(leaf->v))
		return rankfiles_split(leaf->v, ret, NULL, NULL, NULL) >= 0;
	if (leaf->what != SF_WALK_TENSOR || sf_torch_tensor_from_pv(leaf->v, &t, NULL) != 1)
		return false;
	ret->dtype = t.dtype;
	ret->ndim = t.ndim;
	memcpy(ret->shape, t.shape, t.ndim * sizeof(*t.shape));
	return true;
}

/* Where each group's numbers end; @ret of GROUPS_MAX. 0 parameters: they are not numbered one by one. */
static size_t count_params(const struct rankfiles_join *optim, size_t *ret, size_t *ret_groups)
{
	const struct sf_pv *groups = NULL, *params;
	uint64_t id, n = 0;

	for (uint32_t i = 0; i < optim->nparts && !groups; i++)
		if (optim->part[i].r == 0)
			groups = sf_pv_get(optim->part[i].archive.root, "param_groups");
	*ret_groups = 0;
	if (!groups || groups->kind != SF_PV_LIST || groups->seq.n > GROUPS_MAX)
		return 0;
	for (size_t g = 0; g < groups->seq.n; g++) {
		params = sf_pv_get(groups->seq.at[g], "params");
		if (!params || params->kind != SF_PV_LIST || params->seq.n > PARAMS_MAX)
			return 0;
		for (size_t i = 0; i < params->seq.n; i++)
			if (!sf_pv_u64(params->seq.at[i], &id) || id != n++)
				return 0;
		ret[g] = n;
	}
	*ret_groups = groups->seq.n;
	return n;
}

/* The number in a path like state.3.exp_avg; false: it is of none. */
static bool param_of(const struct rankfiles_key *k, size_t n, size_t *ret)
{
	size_t id = 0;

	if (k->npath < 3 || k->path[0].len != 5 || memcmp(k->path[0].s, "state", 5) != 0 ||
	    k->path[1].kind != SF_PATH_INT || k->path[1].len > 9)
		return false;
	for (uint32_t i = 0; i < k->path[1].len; i++) {
		if (k->path[1].s[i] < '0' || k->path[1].s[i] > '9')
			return false;
		id = id * 10 + (size_t)(k->path[1].s[i] - '0');
	}
	*ret = id;
	return id < n;
}

static uint64_t volume(const struct rankfiles_whole *w)
{
	uint64_t n = 1;

	for (unsigned d = 0; d < w->ndim; d++)
		if (!sf_mul(n, w->shape[d], &n))
			return UINT64_MAX;
	return n;
}

/* By number the key of the largest state; a scalar's is none (step). */
static void find_states(const struct rankfiles_join *optim, const struct rankfiles_key **state,
                        size_t n)
{
	for (size_t i = 0; i < optim->keys.n; i++) {
		const struct rankfiles_key *k = &optim->keys.at[i];
		struct rankfiles_whole w, had;
		size_t id;
		if (!param_of(k, n, &id) || !whole_of(&optim->leaves.at[k->first], &w) || !w.ndim)
			continue;
		if (!state[id] || !whole_of(&optim->leaves.at[state[id]->first], &had) ||
		    volume(&w) > volume(&had))
			state[id] = k;
	}
}

/* Tensors that may be parameters, in the model's order. */
struct candidates {
	const struct rankfiles_join *model;
	const struct rankfiles_key **at;
	size_t n;
	struct rankfiles_place *place;
	struct sf_map map; /* of the places: the same parameter under two names is one */
	struct sf_param_shape *shape;
	struct sf_arena arena;
};

/* false: no memory. */
static bool keep_shape(struct sf_arena *arena, const struct rankfiles_whole *w,
                       struct sf_param_shape *ret)
{
	uint64_t *shape = sf_arena_alloc(arena, w->ndim * sizeof(*shape));

	if (!shape)
		return false;
	memcpy(shape, w->shape, w->ndim * sizeof(*shape));
	*ret = (struct sf_param_shape){ shape, w->ndim, true };
	return true;
}

static int same_place(void *arg, uint32_t value, const char *key, size_t len)
{
	return memcmp(&((const struct candidates *)arg)->place[value], key, len) == 0;
}

/* Those that are split, or all floats. */
static int find_candidates(struct candidates *c, bool split)
{
	c->n = 0;
	sf_map_release(&c->map);
	for (size_t i = 0; i < c->model->keys.n; i++) {
		const struct rankfiles_key *k = &c->model->keys.at[i];
		const struct sf_pv *v = c->model->leaves.at[k->first].v;
		struct rankfiles_whole w;
		int r = 0;
		if ((split && !rankfiles_is_split(v)) ||
		    !whole_of(&c->model->leaves.at[k->first], &w) || !w.dtype ||
		    !sf_dtype_info((enum sf_dtype)w.dtype)->is_float)
			continue;
		c->at[c->n] = k;
		if (rankfiles_place(v, &c->place[c->n]) &&
		    sf_map_add(&c->map, (const char *)&c->place[c->n], sizeof(*c->place),
		               (uint32_t)c->n, same_place, c, &r) != SF_MAP_NONE)
			continue;
		if (r < 0 || !keep_shape(&c->arena, &w, &c->shape[c->n]))
			return -ENOMEM;
		c->n++;
	}
	return 0;
}

/* The shapes that the numbers' states have. */
static int find_shapes(struct candidates *c, const struct rankfiles_join *optim, size_t n,
                       struct sf_param_shape *ret)
{
	SF_FREE const struct rankfiles_key **state = calloc(n, sizeof(*state));
	struct rankfiles_whole w;

	if (!state)
		return -ENOMEM;
	find_states(optim, state, n);
	for (size_t i = 0; i < n; i++)
		if (state[i] && whole_of(&optim->leaves.at[state[i]->first], &w) &&
		    !keep_shape(&c->arena, &w, &ret[i]))
			return -ENOMEM;
	return 0;
}

static int match(struct candidates *c, const struct rankfiles_join *optim, size_t n,
                 const size_t *end, size_t groups, struct rankfiles_names *ret)
{
	SF_FREE const struct rankfiles_key **param = calloc(n, sizeof(*param));
	SF_FREE struct sf_param_shape *id = calloc(n, sizeof(*id));
	SF_FREE uint32_t *at = calloc(n, sizeof(*at));
	bool found = false;
	int r = param && id && at ? find_shapes(c, optim, n, id) : -ENOMEM;

	for (int split = 1; split >= 0 && !found && r >= 0; split--) {
		r = find_candidates(c, split);
		found = r >= 0 && sf_torch_match_params(c->shape, c->n, id, n, end, groups, at);
	}
	if (!found)
		return r;
	for (size_t i = 0; i < n; i++)
		param[i] = c->at[at[i]];
	*ret = (struct rankfiles_names){ SF_STEAL(param), n };
	return 0;
}

int rankfiles_match(const struct rankfiles_join *model, const struct rankfiles_join *optim,
                    struct rankfiles_names *ret, struct sf_error *err)
{
	size_t end[GROUPS_MAX], groups;
	const size_t n = count_params(optim, end, &groups);
	struct candidates c = { .model = model };
	int r;

	*ret = (struct rankfiles_names){ 0 };
	if (!n || n > model->keys.n)
		return 0;
	c.at = sf_alloc_array(model->keys.n, sizeof(*c.at));
	c.place = sf_alloc_array(model->keys.n, sizeof(*c.place));
	c.shape = sf_alloc_array(model->keys.n, sizeof(*c.shape));
	r = c.at && c.place && c.shape ? match(&c, optim, n, end, groups, ret) : -ENOMEM;
	free(c.at);
	free(c.place);
	free(c.shape);
	sf_map_release(&c.map);
	sf_arena_release(&c.arena);
	return r < 0 ? sf_fail(err, r, "no memory for %zu parameters", n) : 0;
}
