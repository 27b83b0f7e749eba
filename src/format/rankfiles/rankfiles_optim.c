#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/rankfiles/rankfiles_lower.h"
#include "format/rankfiles/rankfiles_split.h"

#define PARAMS_MAX (1u << 24)

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

/* Parameters of the one group that has some; 0: there are several, or they are not numbered from 0. */
static size_t count_params(const struct rankfiles_join *optim)
{
	const struct sf_pv *groups = NULL, *params, *found = NULL;
	uint64_t id;

	for (uint32_t i = 0; i < optim->nparts && !groups; i++)
		if (optim->part[i].r == 0)
			groups = sf_pv_get(optim->part[i].archive.root, "param_groups");
	for (size_t i = 0; groups && groups->kind == SF_PV_LIST && i < groups->seq.n; i++) {
		params = sf_pv_get(groups->seq.at[i], "params");
		if (!params || params->kind != SF_PV_LIST)
			return 0;
		if (params->seq.n && found)
			return 0;
		if (params->seq.n)
			found = params;
	}
	if (!found || found->seq.n > PARAMS_MAX)
		return 0;
	for (size_t i = 0; i < found->seq.n; i++)
		if (!sf_pv_u64(found->seq.at[i], &id) || id != i)
			return 0;
	return found->seq.n;
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

static bool same_shape(const struct rankfiles_whole *a, const struct rankfiles_whole *b)
{
	return a->ndim == b->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) == 0;
}

/* Tensors that may be parameters, in the model's order. */
struct candidates {
	const struct rankfiles_join *model;
	const struct rankfiles_key **at;
	size_t n;
	struct rankfiles_place *place;
	struct sf_map map; /* of the places: the same parameter under two names is one */
};

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
		if (r < 0)
			return r;
		c->n++;
	}
	return 0;
}

/* Has the parameter the shape of the state? */
static bool fits(const struct rankfiles_join *model, const struct rankfiles_key *param,
                 const struct rankfiles_join *optim, const struct rankfiles_key *state)
{
	struct rankfiles_whole of, has;

	return !state || (whole_of(&model->leaves.at[param->first], &of) &&
	                  whole_of(&optim->leaves.at[state->first], &has) && same_shape(&of, &has));
}

/*
 * Which candidate each number is, in order: some candidates are no parameters (buffers). It is known
 * when there is one way only: when taking each as early as it fits, and as late, gives the same.
 */
static bool choose(const struct candidates *c, const struct rankfiles_join *optim,
                   const struct rankfiles_key *const *state, const struct rankfiles_key **ret,
                   size_t n)
{
	size_t at = 0, known = 0;

	for (size_t i = 0; i < n; i++, at++) {
		while (at < c->n && !fits(c->model, c->at[at], optim, state[i]))
			at++;
		if (at == c->n)
			return false;
		ret[i] = c->at[at];
		known += state[i] != NULL;
	}
	at = c->n;
	for (size_t i = n; i-- > 0;) {
		while (at > 0 && !fits(c->model, c->at[at - 1], optim, state[i]))
			at--;
		if (at == 0 || c->at[--at] != ret[i])
			return false;
	}
	return known > 0;
}

static int match(struct candidates *c, const struct rankfiles_join *optim, size_t n,
                 struct rankfiles_names *ret)
{
	const struct rankfiles_key **param = calloc(n, sizeof(*param));
	SF_FREE const struct rankfiles_key **state = calloc(n, sizeof(*state));
	bool found = false;
	int r = param && state ? 0 : -ENOMEM;

	if (r >= 0)
		find_states(optim, state, n);
	for (int split = 1; split >= 0 && !found && r >= 0; split--) {
		r = find_candidates(c, split);
		found = r >= 0 && choose(c, optim, state, param, n);
	}
	if (found)
		*ret = (struct rankfiles_names){ param, n };
	else
		free(param);
	return r;
}

int rankfiles_match(const struct rankfiles_join *model, const struct rankfiles_join *optim,
                    struct rankfiles_names *ret, struct sf_error *err)
{
	const size_t n = count_params(optim);
	struct candidates c = { .model = model };
	int r;

	*ret = (struct rankfiles_names){ 0 };
	if (!n || n > model->keys.n)
		return 0;
	c.at = sf_alloc_array(model->keys.n, sizeof(*c.at));
	c.place = sf_alloc_array(model->keys.n, sizeof(*c.place));
	r = c.at && c.place ? match(&c, optim, n, ret) : -ENOMEM;
	free(c.at);
	free(c.place);
	sf_map_release(&c.map);
	return r < 0 ? sf_fail(err, r, "no memory for %zu parameters", n) : 0;
}
