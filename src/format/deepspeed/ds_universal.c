#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/map.h"
#include "format/deepspeed/ds_slice.h"
#include "format/torch/torch_lower.h"
#include "parse/torch_item.h"

/*
 * A universal checkpoint has a directory for each parameter, a file for each of its states: of ZeRO-1 and 2 a
 * dict with the tensor as "param", of ZeRO-3 the flat tensor alone, whose shape the model states say.
 * Source: deepspeedai/DeepSpeed checkpoint/ds_to_universal.py, 0.19.
 */

#define AT_ONCE 256

/* zero/NAME/STATE.pt: which parameter, which state. */
struct ds_uni_name {
	const char *name, *state;
	size_t name_len, state_len;
};

static struct ds_uni_name name_of(const struct ds_file *f)
{
	const char *name = strstr(f->file->name, "zero/") + 5, *slash = strrchr(name, '/');

	return (struct ds_uni_name){ name, slash + 1, (size_t)(slash - name),
		                     strlen(slash + 1) - 3 };
}

struct universal {
	struct ds_slice *s;
	struct sf_store *store;
	struct sf_error *err;
	struct sf_map map; /* name -> params */
	const struct ds_file *file;
	size_t n;
};

static int same_name(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct ds_param *p = &((const struct universal *)arg)->s->params.at[value];

	return p->len == len && memcmp(p->name, name, len) == 0;
}

static bool is_tensor_file(const struct ds_uni_name *n)
{
	return !(n->state_len == 4 && memcmp(n->state, "step", 4) == 0);
}

/* The parameters that the model states name, then those that have a directory alone. */
static int find_params(struct universal *u)
{
	struct ds_slice *s = u->s;
	int r = 0;

	for (size_t i = 0; i < s->params.n && r >= 0; i++)
		sf_map_add(&u->map, s->params.at[i].name, s->params.at[i].len, (uint32_t)i,
		           same_name, u, &r);
	for (size_t i = 0; i < u->n && r >= 0; i++) {
		const struct ds_uni_name n = name_of(&u->file[i]);
		struct ds_param p = { .fp32 = SF_NONE, .module = SF_NONE };
		if (sf_map_get(&u->map, n.name, n.name_len, same_name, u) != SF_MAP_NONE)
			continue;
		p.name = sf_arena_strdup(&s->arena, n.name, n.name_len);
		p.len = (uint32_t)n.name_len;
		if (!p.name || ds_params_push(&s->params, p) < 0)
			return -ENOMEM;
		sf_map_add(&u->map, p.name, p.len, (uint32_t)s->params.n - 1, same_name, u, &r);
	}
	for (size_t i = 0; i < s->params.n; i++)
		s->params.at[i].sub = s->params.at[i].space = (uint32_t)i;
	s->nspaces = (uint32_t)SF_MAX(s->params.n, (size_t)1);
	return r;
}

/* The state's text, as sf_slice wants it: ended, and the same pointer for the same one. */
static int find_moments(struct universal *u)
{
	int r = ds_add_moment(u->s, "", u->err);

	for (size_t i = 0; i < u->n && r >= 0; i++) {
		const struct ds_uni_name n = name_of(&u->file[i]);
		bool there = n.state_len == 4 && memcmp(n.state, "fp32", 4) == 0;
		if (!is_tensor_file(&n))
			continue;
		for (unsigned m = 1; m < u->s->nmoments && !there; m++)
			there = strlen(u->s->moment[m].name) == n.state_len &&
			        memcmp(u->s->moment[m].name, n.state, n.state_len) == 0;
		if (there)
			continue;
		const char *text = sf_arena_strdup(&u->s->arena, n.state, n.state_len);
		r = text ? ds_add_moment(u->s, text, u->err) : -ENOMEM;
	}
	return r;
}

static unsigned moment_of(const struct ds_slice *s, const struct ds_uni_name *n)
{
	for (unsigned m = 1; m < s->nmoments; m++)
		if (strlen(s->moment[m].name) == n->state_len &&
		    memcmp(s->moment[m].name, n->state, n->state_len) == 0)
			return m;
	return 0;
}

/* One file's tensor. A shape that nobody else says is its own. */
static int take_file(struct universal *u, const struct ds_uni_name *n, struct sf_torch_part *part)
{
	struct ds_slice *s = u->s;
	struct ds_param *p = &s->params.at[sf_map_get(&u->map, n->name, n->name_len, same_name, u)];
	const struct sf_pv *v = part->archive.root, *inner = ds_get(v, "param");
	struct sf_error why = SF_ERROR_INIT;
	struct sf_torch_tensor t;
	uint64_t numel = 1, *shape;
	struct ds_space *space = &s->moment[moment_of(s, n)].space[p->space];
	int r = part->r;

	if (r >= 0)
		r = ds_space_add_dense(space, s->b, part, inner ? inner : v, &t, &why);
	if (part->r < 0 ? r == -EBADMSG || r == -ENOTSUP || r == -E2BIG : r == -EBADMSG)
		return sf_ckpt_builder_warn(s->b, NULL, "unreadable-file", "left out: %s",
		                            part->r < 0 ? part->err.msg : why.msg);
	if (r < 0)
		return sf_fail(u->err, r, "%s", part->r < 0 ? part->err.msg : why.msg);
	for (unsigned d = 0; d < t.ndim; d++)
		numel *= t.shape[d];
	if (!p->shape) {
		shape = sf_arena_alloc(&s->arena, t.ndim * sizeof(*shape));
		if (!shape)
			return -ENOMEM;
		memcpy(shape, t.shape, t.ndim * sizeof(*shape));
		p->shape = shape;
		p->ndim = t.ndim;
		p->numel = numel;
	}
	if (numel != p->numel)
		return sf_ckpt_builder_warn(s->b, NULL, "malformed-tensor",
		                            "'%s': %" PRIu64
		                            " elements, and the parameter has %" PRIu64,
		                            part->file->name, numel, p->numel);
	return 0;
}

/* An optimizer's count is no state of every element. */
static int take_step(struct universal *u, const struct ds_uni_name *n, struct sf_torch_part *part)
{
	const struct sf_path_elem prefix[4] = { { "optim", 5, SF_PATH_TEXT },
		                                { "state", 5, SF_PATH_TEXT },
		                                { n->name, (uint32_t)n->name_len, SF_PATH_TEXT },
		                                { "step", 4, SF_PATH_TEXT } };
	const struct sf_torch_lower lower = {
		.b = u->s->b, .part = part, .prefix = prefix, .nprefix = 4
	};

	if (part->r < 0)
		return take_file(u, n, part);
	return sf_torch_lower(&lower, part->archive.root, u->err);
}

static int take_files(struct universal *u)
{
	SF_FREE struct sf_torch_part *part = sf_alloc_array(AT_ONCE, sizeof(*part));
	SF_FREE struct ds_uni_name *name = sf_alloc_array(AT_ONCE, sizeof(*name));
	int r = part && name ? 0 : -ENOMEM;

	for (size_t i = 0; i < u->n && r >= 0;) {
		size_t some = 0;
		for (; i < u->n && some < AT_ONCE; i++) {
			const struct ds_uni_name n = name_of(&u->file[i]);
			name[some] = n;
			part[some++] = (struct sf_torch_part){ .file = u->file[i].file };
		}
		r = sf_torch_parts_open(u->store, part, some, 0, u->err);
		if (r < 0)
			return r;
		for (size_t k = 0; k < some && r >= 0; k++)
			r = is_tensor_file(&name[k]) ? take_file(u, &name[k], &part[k])
			                             : take_step(u, &name[k], &part[k]);
		sf_torch_parts_release(part, some);
	}
	return r;
}

#define STATES_MOST 16 /* of a parameter, that are counted */

/* The number of states that most parameters have, of those with any beside their weights. */
static uint32_t usual_states(const uint32_t *have, size_t n)
{
	size_t with[STATES_MOST] = { 0 };
	uint32_t usual = 0;

	for (size_t i = 0; i < n; i++)
		if (have[i] < STATES_MOST)
			with[have[i]]++;
	for (uint32_t k = 2; k < STATES_MOST; k++)
		usual = with[k] > (usual ? with[usual] : 0) ? k : usual;
	return usual;
}

/*
 * A parameter with fewer states than most has lost a file. One with its weights alone is frozen, or a
 * buffer.
 */
static int check_states(struct universal *u)
{
	struct ds_slice *s = u->s;
	SF_FREE uint32_t *have = calloc(SF_MAX(s->params.n, (size_t)1), sizeof(*have));
	SF_CLEANUP(sf_buf_release) struct sf_buf shown = { .limit = 4096 };
	uint32_t usual;
	int r = have ? 0 : -ENOMEM;

	for (size_t i = 0; i < u->n && r >= 0; i++) {
		const struct ds_uni_name n = name_of(&u->file[i]);
		uint32_t p = sf_map_get(&u->map, n.name, n.name_len, same_name, u);
		if (is_tensor_file(&n) && p != SF_MAP_NONE)
			have[p]++;
	}
	usual = r < 0 ? 0 : usual_states(have, s->params.n);
	for (size_t i = 0; i < s->params.n && r >= 0; i++) {
		if (have[i] < 2 || have[i] >= usual)
			continue;
		sf_buf_reset(&shown);
		sf_escape_text(&shown, s->params.at[i].name, SF_MIN(s->params.at[i].len, 200u));
		r = sf_ckpt_builder_warn(s->b, NULL, "missing-file",
		                         "'zero/%s' has %" PRIu32
		                         " states, most parameters have %" PRIu32,
		                         sf_buf_cstr(&shown), have[i], usual);
	}
	return r;
}

/* What has no file of its weights is none: its shape is not known, or the model states have it. */
static int read_params(struct universal *u)
{
	int r = find_params(u);

	if (r >= 0)
		r = find_moments(u);
	if (r >= 0)
		r = take_files(u);
	return r < 0 ? r : check_states(u);
}

int ds_universal_open(struct ds_slice *s, struct sf_store *store, const struct ds_set *set,
                      struct sf_error *err)
{
	struct universal u = { .s = s, .store = store, .err = err };
	struct ds_set model = { .files = set->files, .dir = set->dir };
	int r;

	u.file = ds_set_kind(set, DS_UNIVERSAL, &u.n);
	s->universal = true;
	r = ds_slice_open(s, store, &model, 0, err);
	if (r >= 0)
		r = ds_slice_read(s, err);
	s->stage = 2;
	if (r >= 0)
		r = read_params(&u);
	sf_map_release(&u.map);
	if (r == -ENOMEM && err && !err->msg[0])
		sf_fail(err, r, "no memory for %zu parameters", s->params.n);
	return r;
}
