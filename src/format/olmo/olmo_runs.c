#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "format/olmo/olmo.h"

#define KEY_MAX (64u << 10) /* the builder's */

void olmo_runs_release(struct olmo_runs *r)
{
	if (r->map)
		sf_map_release(r->map);
	free(r->map);
	free(r->tensor.at);
	free(r->run.at);
	sf_arena_release(&r->arena);
	*r = (struct olmo_runs){ 0 };
}

static int no_memory(struct olmo_load *l)
{
	return sf_fail(l->err, -ENOMEM, "no memory for the tensors of flat pieces");
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct olmo_tensor *t = &((const struct olmo_runs *)arg)->tensor.at[value];

	return t->len == len && memcmp(t->name, key, len) == 0;
}

uint32_t olmo_runs_find(const struct olmo_runs *r, const char *name, size_t len)
{
	uint32_t at = r->map ? sf_map_get(r->map, name, len, same_name, (void *)(uintptr_t)r)
	                     : SF_MAP_NONE;

	return at == SF_MAP_NONE ? SF_NONE : at;
}

static int check_same(struct olmo_load *l, const struct olmo_tensor *t, enum sf_dtype dtype,
                      const uint64_t *shape, unsigned ndim)
{
	if (t->dtype != dtype || t->ndim != ndim ||
	    (ndim && memcmp(t->shape, shape, ndim * sizeof(*shape)) != 0))
		return sf_fail(l->err, -EBADMSG,
		               "'%.*s': ranks disagree about its dtype or shape (%s of %u "
		               "dimensions, %s of %u)",
		               (int)SF_MIN(t->len, 200u), t->name,
		               sf_dtype_info((enum sf_dtype)t->dtype)->torch, t->ndim,
		               sf_dtype_info(dtype)->torch, ndim);
	return 0;
}

int olmo_runs_tensor(struct olmo_load *l, struct olmo_runs *r, const char *name, size_t len,
                     enum sf_dtype dtype, const uint64_t *shape, unsigned ndim, uint32_t *ret)
{
	uint32_t at = olmo_runs_find(r, name, len);
	struct olmo_tensor *t;
	int failed = 0;

	if (at != SF_NONE) {
		*ret = at;
		return check_same(l, &r->tensor.at[at], dtype, shape, ndim);
	}
	if (len > KEY_MAX)
		return sf_fail(l->err, -E2BIG, "a name of %zu bytes", len);
	if (!r->map)
		r->map = calloc(1, sizeof(*r->map));
	if (!r->map ||
	    (r->tensor.n == r->tensor.cap &&
	     sf_vec_grow((void **)&r->tensor.at, &r->tensor.cap, r->tensor.n + 1, sizeof(*t)) < 0))
		return no_memory(l);
	t = &r->tensor.at[r->tensor.n];
	*t = (struct olmo_tensor){ .name = sf_arena_strdup(&r->arena, name, len),
		                   .len = (uint32_t)len,
		                   .dtype = (uint8_t)dtype,
		                   .ndim = (uint8_t)ndim,
		                   .first = SF_NONE,
		                   .last = SF_NONE };
	if (!t->name)
		return no_memory(l);
	if (ndim)
		memcpy(t->shape, shape, ndim * sizeof(*shape));
	*ret = (uint32_t)r->tensor.n++;
	sf_map_add(r->map, t->name, len, *ret, same_name, r, &failed);
	return failed ? no_memory(l) : 0;
}

int olmo_runs_add(struct olmo_load *l, struct olmo_runs *r, uint32_t tensor,
                  const struct olmo_run *run)
{
	struct olmo_tensor *t = &r->tensor.at[tensor];
	uint64_t volume = 1, end;
	uint32_t at = (uint32_t)r->run.n;

	for (unsigned d = 0; d < t->ndim; d++)
		if (!sf_mul(volume, t->shape[d], &volume))
			volume = UINT64_MAX;
	if (!sf_add(run->start, run->len, &end) || end > volume)
		return sf_fail(l->err, -EBADMSG,
		               "'%.*s': %" PRIu64 " elements at %" PRIu64 " of rank %" PRIu32
		               " pass its %" PRIu64,
		               (int)SF_MIN(t->len, 200u), t->name, run->len, run->start, run->rank,
		               volume);
	if (r->run.n == r->run.cap &&
	    sf_vec_grow((void **)&r->run.at, &r->run.cap, r->run.n + 1, sizeof(*run)) < 0)
		return no_memory(l);
	r->run.at[r->run.n++] = *run;
	r->run.at[at].next = SF_NONE;
	if (t->last == SF_NONE)
		t->first = at;
	else
		r->run.at[t->last].next = at;
	t->last = at;
	return 0;
}

const struct olmo_run *olmo_runs_of(const struct olmo_runs *r, uint32_t tensor, uint32_t rank)
{
	for (uint32_t i = r->tensor.at[tensor].first; i != SF_NONE; i = r->run.at[i].next)
		if (r->run.at[i].rank == rank)
			return &r->run.at[i];
	return NULL;
}

static int lower_runs(struct olmo_load *l, const struct olmo_runs *r, const struct olmo_tensor *t,
                      uint32_t tensor)
{
	const uint64_t origin[SF_DIMS_MAX] = { 0 };
	const uint64_t elem = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	uint32_t chunk = 0;
	int res = 0;

	for (uint32_t i = t->first; i != SF_NONE && res >= 0; i = r->run.at[i].next) {
		const struct olmo_run *run = &r->run.at[i];
		if (!run->len) /* a rank that has none of it */
			continue;
		res = sf_ckpt_builder_chunk(l->b, origin, t->shape, l->err);
		if (res >= 0)
			res = sf_ckpt_builder_part(l->b, run->start, run->len, l->err);
		if (res >= 0)
			sf_ckpt_builder_set_item(l->b, tensor, chunk++, run->place, run->off,
			                         run->len * elem);
	}
	return res < 0 ? res : 0;
}

/* The path of GROUP.NAME; of a state GROUP.state.PARAMETER.STATE, whose parameters have dots. */
static int set_path(struct olmo_load *l, const char *key, size_t len, const char *group,
                    const struct olmo_tensor *t, bool state)
{
	struct sf_path_elem p[4] = { { group, (uint32_t)strlen(group), SF_PATH_TEXT } };
	const char *dot = state ? memrchr(t->name, '.', t->len) : NULL;
	size_t n = 1;

	if (state)
		p[n++] = (struct sf_path_elem){ "state", 5, SF_PATH_TEXT };
	p[n++] = (struct sf_path_elem){ t->name, dot ? (uint32_t)(dot - t->name) : t->len,
		                        SF_PATH_TEXT };
	if (dot)
		p[n++] = (struct sf_path_elem){ dot + 1, t->len - (uint32_t)(dot + 1 - t->name),
			                        SF_PATH_TEXT };
	return sf_ckpt_builder_path(l->b, key, len, p, n, l->err);
}

int olmo_runs_lower(struct olmo_load *l, const struct olmo_runs *r, const char *group, bool state)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = KEY_MAX };
	uint32_t tensor;
	int res = 0;

	for (size_t i = 0; i < r->tensor.n && res >= 0; i++) {
		const struct olmo_tensor *t = &r->tensor.at[i];
		sf_buf_reset(&name);
		sf_buf_printf(&name, "%s.%s", group, state ? "state." : "");
		sf_buf_add(&name, t->name, t->len);
		if (sf_buf_check(&name) < 0)
			return no_memory(l);
		res = sf_ckpt_builder_tensor(l->b, (const char *)name.at, name.len,
		                             (enum sf_dtype)t->dtype, t->shape, t->ndim, &tensor,
		                             l->err);
		if (res >= 0)
			res = lower_runs(l, r, t, tensor);
		if (res >= 0)
			res = set_path(l, (const char *)name.at, name.len, group, t, state);
	}
	return res < 0 ? res : 0;
}
