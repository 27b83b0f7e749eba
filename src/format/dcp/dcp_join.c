#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_join.h"

/* A hash table of chunk numbers of one tensor, by origin (and extent, to find replicas). Made for
 * those that need a search. */
struct boxes {
	uint32_t *slot; /* chunk of the tensor + 1, 0 free */
	size_t mask;
};

static uint64_t box_hash(const uint64_t *at, unsigned n)
{
	return sf_hash(at, n * sizeof(*at));
}

static void box_load(const struct dcp_meta *m, const struct dcp_tensor *t, uint32_t i,
                     uint64_t *ret)
{
	const struct dcp_run *run;
	uint32_t at = dcp_meta_chunk_at(m, t, i, &run) - run->chunk0;

	for (unsigned k = 0; k < 2u * run->ndim; k++)
		ret[k] = dcp_coord(m, run, at, k);
}

static bool box_empty(const uint64_t *box, unsigned ndim)
{
	for (unsigned k = 0; k < ndim; k++)
		if (box[ndim + k] == 0)
			return true;
	return false;
}

static int boxes_init(struct boxes *b, size_t n)
{
	size_t cap = 16;

	while (cap / 2 < n)
		cap *= 2;
	b->slot = calloc(cap, sizeof(*b->slot));
	b->mask = cap - 1;
	return b->slot ? 0 : -ENOMEM;
}

static void boxes_release(struct boxes *b)
{
	free(b->slot);
	b->slot = NULL;
}

/* The slot of the chunk whose first @n coordinates are @want's, or the free one where it would go. */
static uint32_t *boxes_find(const struct boxes *b, const struct dcp_meta *m,
                            const struct dcp_tensor *t, const uint64_t *want, unsigned n)
{
	uint64_t box[2 * SF_DIMS_MAX];
	size_t at = (size_t)box_hash(want, n) & b->mask;

	for (; b->slot[at]; at = (at + 1) & b->mask) {
		box_load(m, t, b->slot[at] - 1, box);
		if (n == 0 || memcmp(box, want, n * sizeof(*box)) == 0)
			break;
	}
	return &b->slot[at];
}

static int by_tensor(const void *pa, const void *pb, void *arg)
{
	const struct dcp_meta *m = arg;
	const struct dcp_pending *a = &m->pending.at[*(const uint32_t *)pa],
				 *b = &m->pending.at[*(const uint32_t *)pb];
	uint32_t ta = m->str.at[a->name].tensor, tb = m->str.at[b->name].tensor;

	if (ta != tb)
		return ta < tb ? -1 : 1;
	return *(const uint32_t *)pa < *(const uint32_t *)pb
	               ? -1
	               : 1; /* stored order: the first item stays */
}

/* All pending items of tensor @t: numbers list[0 … n-1]. */
static int join_tensor(struct dcp_meta *m, const struct dcp_tensor *t, const uint32_t *list,
                       size_t n)
{
	uint64_t box[2 * SF_DIMS_MAX], old[2 * SF_DIMS_MAX];
	struct boxes b = { 0 };
	int r = boxes_init(&b, t->nchunks);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < t->nchunks; i++) {
		uint32_t *slot;
		box_load(m, t, i, box);
		slot = boxes_find(&b, m, t, box, t->ndim);
		if (*slot) {
			box_load(m, t, *slot - 1, old);
			if (!box_empty(old, t->ndim) || box_empty(box, t->ndim))
				continue; /* the first of an origin, but a real one before an empty
				             one */
		}
		*slot = i + 1;
	}
	for (size_t i = 0; i < n; i++) {
		const struct dcp_pending *p = &m->pending.at[list[i]];
		const struct dcp_run *run;
		uint32_t found = 0;
		if (p->ndim == t->ndim)
			found = *boxes_find(&b, m, t, p->ndim ? m->dims.at + p->coord0 : box,
			                    t->ndim);
		if (!found) {
			m->stray++;
			continue;
		}
		struct dcp_item *at = &m->item.at[dcp_meta_chunk_at(m, t, found - 1, &run)];
		if (at->place == DCP_NONE)
			*at = p->item;
	}
	boxes_release(&b);
	return 0;
}

/* Real chunks without an item share that of an equal box: the writer's dict has one entry for both. */
static int share_items(struct dcp_meta *m, const struct dcp_tensor *t)
{
	uint64_t box[2 * SF_DIMS_MAX];
	struct boxes b = { 0 };
	const struct dcp_run *run;
	bool need = false;
	int r;

	for (uint32_t k = 0; k < t->nruns && !need; k++) {
		run = &m->run.at[t->run0 + k];
		for (uint32_t i = 0; i < run->count && !need; i++)
			need = m->item.at[run->chunk0 + i].place == DCP_NONE;
	}
	if (!need || t->nchunks < 2)
		return 0;
	r = boxes_init(&b, t->nchunks);
	for (uint32_t pass = 0; r >= 0 && pass < 2; pass++) {
		for (uint32_t i = 0; i < t->nchunks; i++) {
			struct dcp_item *at = &m->item.at[dcp_meta_chunk_at(m, t, i, &run)];
			if ((at->place == DCP_NONE) != (pass == 1))
				continue;
			box_load(m, t, i, box);
			uint32_t *slot = boxes_find(&b, m, t, box, 2u * t->ndim);
			if (pass == 0 && !*slot)
				*slot = i + 1;
			else if (pass == 1 && *slot)
				*at = m->item.at[dcp_meta_chunk_at(m, t, *slot - 1, &run)];
		}
	}
	boxes_release(&b);
	return r;
}

int dcp_meta_finish(struct dcp_meta *m, struct sf_error *err)
{
	SF_FREE uint32_t *list = sf_alloc_array(m->pending.n, sizeof(*list));
	size_t n = 0;
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < m->pending.n; i++) {
		if (m->str.at[m->pending.at[i].name].tensor == DCP_NONE)
			m->stray++;
		else
			list[n++] = (uint32_t)i;
	}
	if (n > 1)
		qsort_r(list, n, sizeof(*list), by_tensor, m);
	for (size_t i = 0, k; r >= 0 && i < n; i = k) {
		uint32_t t = m->str.at[m->pending.at[list[i]].name].tensor;
		for (k = i; k < n && m->str.at[m->pending.at[list[k]].name].tensor == t; k++)
			;
		r = join_tensor(m, &m->tensor.at[t], list + i, k - i);
	}
	dcp_pendings_release(&m->pending);
	for (size_t i = 0; r >= 0 && i < m->key.n; i++)
		if (m->key.at[i].tensor != DCP_NONE)
			r = share_items(m, &m->tensor.at[m->key.at[i].tensor]);
	return r < 0 ? sf_fail(err, r, "joining storage_data with %zu tensors: no memory",
	                       m->tensor.n)
	             : 0;
}
