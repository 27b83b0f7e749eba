#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_join.h"
#include "format/dcp/dcp_meta.h"

void dcp_meta_release(struct dcp_meta *m)
{
	sf_arena_release(&m->arena);
	dcp_strs_release(&m->str);
	sf_map_release(&m->str_map);
	dcp_u32s_release(&m->coord);
	dcp_u64s_release(&m->dims);
	dcp_items_release(&m->item);
	dcp_runs_release(&m->run);
	dcp_tensors_release(&m->tensor);
	dcp_places_release(&m->place);
	sf_map_release(&m->place_map);
	dcp_keys_release(&m->key);
	dcp_bytess_release(&m->bytes);
	dcp_pendings_release(&m->pending);
	dcp_elems_release(&m->elem);
	dcp_paths_release(&m->path);
	*m = (struct dcp_meta){ .facts.version = DCP_NONE };
}

static int same_str(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct dcp_str *s = &((const struct dcp_meta *)arg)->str.at[value];

	return s->len == len && (len == 0 || memcmp(s->at, key, len) == 0);
}

uint32_t dcp_meta_str_find(const struct dcp_meta *m, const char *s, size_t len)
{
	return sf_map_get(&m->str_map, s, len, same_str, (void *)(uintptr_t)m);
}

int dcp_meta_str(struct dcp_meta *m, const char *s, size_t len, uint32_t *ret)
{
	struct dcp_str e = { .len = (uint32_t)len, .tensor = DCP_NONE };
	uint32_t at;
	int failed;

	if (len > DCP_STRING_MAX || m->str.n >= DCP_NONE / 2)
		return -E2BIG;
	at = dcp_meta_str_find(m, s, len);
	if (at == SF_MAP_NONE) {
		e.at = sf_arena_strdup(&m->arena, s, len);
		if (!e.at || dcp_strs_push(&m->str, e) < 0)
			return -ENOMEM;
		at = (uint32_t)m->str.n - 1;
		sf_map_add(&m->str_map, s, len, at, same_str, m, &failed);
		if (failed)
			return failed;
	}
	*ret = at;
	return 0;
}

static int same_place(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct dcp_place *p = &((const struct dcp_meta *)arg)->place.at[value];

	(void)len;
	return memcmp(p, key, sizeof(*p)) == 0;
}

int dcp_meta_place(struct dcp_meta *m, uint32_t path, uint32_t transform, uint32_t *ret)
{
	const struct dcp_place p = { path, transform };
	const char *key = (const char *)&p;
	uint32_t at = sf_map_get(&m->place_map, key, sizeof(p), same_place, m);
	int failed;

	if (at == SF_MAP_NONE) {
		if (m->place.n >= DCP_NONE / 2 || dcp_places_push(&m->place, p) < 0)
			return -ENOMEM;
		at = (uint32_t)m->place.n - 1;
		sf_map_add(&m->place_map, key, sizeof(p), at, same_place, m, &failed);
		if (failed)
			return failed;
	}
	*ret = at;
	return 0;
}

int dcp_meta_flat(struct dcp_meta *m, uint32_t name, const uint64_t *shape, unsigned ndim)
{
	const uint32_t tensor = m->str.at[name].tensor;
	struct dcp_tensor *t;

	if (tensor >= m->tensor.n)
		return 1;
	t = &m->tensor.at[tensor];
	if (t->flat)
		return -EEXIST;
	if (dcp_u64s_reserve(&m->dims, m->dims.n + ndim) < 0)
		return -ENOMEM;
	t->flat = true;
	t->flat_ndim = (uint8_t)ndim;
	t->flat_shape0 = m->dims.n;
	for (unsigned k = 0; k < ndim; k++)
		m->dims.at[m->dims.n++] = shape[k];
	return 0;
}

/*
 * name[@domain][/version], outermost first; only stream.zstd of major version 1 is undone, alone or
 * several in a row. Others are kept as one text. Source: pytorch/pytorch
 * torch/distributed/checkpoint/_extension.py, 2.14.
 */
uint32_t dcp_transform_of(const char *joined, size_t len)
{
	static const char zstd[] = "stream.zstd/1";
	const size_t n = sizeof(zstd) - 1;
	const char *end, *comma;
	uint32_t streams = DCP_PLAIN;

	if (len == 0)
		return DCP_PLAIN;
	end = joined + len;
	for (;; joined = comma + 1) {
		comma = memchr(joined, ',', (size_t)(end - joined));
		len = (size_t)((comma ? comma : end) - joined);
		if (len < n || memcmp(joined, zstd, n) != 0 || (len > n && joined[n] != '.') ||
		    streams == DCP_ZSTD_MAX)
			return DCP_OTHER;
		streams++;
		if (!comma)
			return streams;
	}
}

int dcp_meta_chunk(struct dcp_meta *m, const uint64_t *origin, const uint64_t *extent,
                   unsigned ndim, uint32_t *ret_run)
{
	struct dcp_run run = { .coord0 = m->coord.n,
		               .chunk0 = (uint32_t)m->item.n,
		               .count = 1,
		               .ndim = (uint8_t)ndim };
	const struct dcp_item none = { .place = DCP_NONE };
	const uint64_t *const side[2] = { origin, extent };

	if (m->item.n >= DCP_CHUNKS_MAX || (m->room && m->coord.n + m->item.n > m->room))
		return -E2BIG;
	for (unsigned k = 0; k < ndim; k++)
		run.wide |= (origin[k] | extent[k]) > UINT32_MAX;
	if (dcp_u32s_reserve(&m->coord, m->coord.n + (size_t)ndim * 4) < 0 ||
	    dcp_items_push(&m->item, none) < 0 || dcp_runs_push(&m->run, run) < 0)
		return -ENOMEM;
	for (unsigned s = 0; s < 2; s++) {
		for (unsigned k = 0; k < ndim; k++) {
			m->coord.at[m->coord.n++] = (uint32_t)side[s][k];
			if (run.wide)
				m->coord.at[m->coord.n++] = (uint32_t)(side[s][k] >> 32);
		}
	}
	*ret_run = (uint32_t)m->run.n - 1;
	return 0;
}

uint32_t dcp_meta_chunk_at(const struct dcp_meta *m, const struct dcp_tensor *t, uint32_t i,
                           const struct dcp_run **ret_run)
{
	const struct dcp_run *run = &m->run.at[t->run0];

	run += SF_LAST_THAT(k, t->nruns, run[k].first <= i);
	*ret_run = run;
	return run->chunk0 + (i - run->first);
}

int dcp_meta_item(struct dcp_meta *m, uint32_t name, const uint64_t *origin, unsigned ndim,
                  uint32_t hint, struct dcp_item item)
{
	struct dcp_pending p = {
		.item = item, .coord0 = m->dims.n, .name = name, .ndim = (uint8_t)ndim
	};

	if (m->str.at[name].tensor != DCP_NONE) {
		struct dcp_tensor *t = &m->tensor.at[m->str.at[name].tensor];
		const uint32_t tries[] = { hint, t->guess };
		for (unsigned k = 0; k < 2 && ndim == t->ndim; k++) {
			if (tries[k] < t->nchunks && dcp_join_hint(m, t, tries[k], origin, &item)) {
				t->guess = tries[k] + 1;
				return 0;
			}
		}
	}
	if (dcp_u64s_reserve(&m->dims, m->dims.n + ndim) < 0 ||
	    dcp_pendings_push(&m->pending, p) < 0)
		return -ENOMEM;
	for (unsigned k = 0; k < ndim; k++)
		m->dims.at[m->dims.n++] = origin[k];
	return 0;
}
