#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_join.h"
#include "format/dcp/dcp_meta.h"

/* Rank-local metadata, one description per rank, as one. Tensor by tensor, so that its chunks lie
 * side by side. */

struct part { /* tensor @tensor of from[@file] is part of the result's @into */
	uint32_t into, file, tensor;
};
SF_VEC(parts, struct part);

struct merge {
	struct dcp_meta *m;
	const struct dcp_meta *from;
	size_t n;
	struct sf_error *err;
	struct parts parts;    /* in order of files; by_into sorts them */
	struct dcp_u32s map;   /* per file: its strings' numbers in the result */
	struct dcp_u32s place; /* all files' places in the result, file i's from place0[i] on */
	struct dcp_u64s place0;
	uint32_t *slot; /* chunks of the open tensor by box, chunk + 1 */
	size_t mask;
};

static int no_memory(struct merge *x)
{
	return sf_fail(x->err, -ENOMEM, "dcp: no memory to merge %zu metadata files", x->n);
}

static int map_strings(struct merge *x, const struct dcp_meta *f)
{
	x->map.n = 0;
	if (dcp_u32s_reserve(&x->map, f->str.n) < 0)
		return no_memory(x);
	for (; x->map.n < f->str.n; x->map.n++)
		if (dcp_meta_str(x->m, f->str.at[x->map.n].at, f->str.at[x->map.n].len,
		                 &x->map.at[x->map.n]) < 0)
			return no_memory(x);
	return 0;
}

static int map_places(struct merge *x, const struct dcp_meta *f)
{
	size_t n = x->place.n;

	if (dcp_u64s_push(&x->place0, n) < 0 || dcp_u32s_reserve(&x->place, n + f->place.n) < 0)
		return no_memory(x);
	for (size_t i = 0; i < f->place.n; i++, x->place.n++) {
		struct dcp_place p = f->place.at[i];
		if (p.transform >= DCP_OTHER)
			p.transform = DCP_OTHER + x->map.at[p.transform - DCP_OTHER];
		if (dcp_meta_place(x->m, x->map.at[p.path], p.transform, &x->place.at[x->place.n]) <
		    0)
			return no_memory(x);
	}
	return 0;
}

/* Keys in order of first appearance, bytes items, paths. */
static int merge_names(struct merge *x, uint32_t file)
{
	const struct dcp_meta *f = &x->from[file];
	struct dcp_meta *m = x->m;
	int r = map_strings(x, f);

	for (size_t i = 0; i < f->key.n && r >= 0; i++) {
		struct dcp_key key = { .name = x->map.at[f->key.at[i].name], .tensor = DCP_NONE };
		struct dcp_str *name = &m->str.at[key.name];
		struct part p = { .file = file, .tensor = f->key.at[i].tensor };
		if (p.tensor == DCP_NONE) {
			if (name->tensor == DCP_NONE - 1)
				continue; /* every rank has it */
			if (name->tensor != DCP_NONE)
				return sf_fail(x->err, -EBADMSG,
				               "dcp: '%.200s' is a tensor in one rank's metadata "
				               "and bytes in rank %u's",
				               name->at, file);
			name->tensor = DCP_NONE - 1; /* seen as bytes */
			r = dcp_keys_push(&m->key, key) < 0 ? no_memory(x) : 0;
			continue;
		}
		const struct dcp_tensor *t = &f->tensor.at[p.tensor];
		if (name->tensor == DCP_NONE - 1)
			return sf_fail(x->err, -EBADMSG,
			               "dcp: '%.200s' is bytes in one rank's metadata and a tensor "
			               "in rank %u's",
			               name->at, file);
		if (name->tensor == DCP_NONE) {
			struct dcp_tensor mine = { .shape0 = m->dims.n,
				                   .name = key.name,
				                   .dtype = t->dtype,
				                   .ndim = t->ndim,
				                   .taken = true };
			if (dcp_u64s_reserve(&m->dims, m->dims.n + t->ndim) < 0 ||
			    dcp_tensors_push(&m->tensor, mine) < 0)
				return no_memory(x);
			for (unsigned k = 0; k < t->ndim; k++)
				m->dims.at[m->dims.n++] = f->dims.at[t->shape0 + k];
			name->tensor = key.tensor = (uint32_t)m->tensor.n - 1;
			r = dcp_keys_push(&m->key, key) < 0 ? no_memory(x) : 0;
		} else {
			const struct dcp_tensor *old = &m->tensor.at[name->tensor];
			if (old->dtype != t->dtype || old->ndim != t->ndim ||
			    (t->ndim && memcmp(m->dims.at + old->shape0, f->dims.at + t->shape0,
			                       t->ndim * sizeof(uint64_t)) != 0))
				return sf_fail(x->err, -EBADMSG,
				               "dcp: '%.200s': rank %u's metadata gives another "
				               "shape or dtype than an earlier one",
				               name->at, file);
		}
		p.into = name->tensor;
		if (r >= 0 && parts_push(&x->parts, p) < 0)
			r = no_memory(x);
	}
	for (size_t i = 0; i < f->path.n && r >= 0; i++) {
		struct dcp_path path = { x->map.at[f->path.at[i].key], (uint32_t)m->elem.n,
			                 f->path.at[i].n };
		if (dcp_elems_reserve(&m->elem, m->elem.n + path.n) < 0 ||
		    dcp_paths_push(&m->path, path) < 0)
			return no_memory(x);
		for (uint32_t k = 0; k < path.n; k++) {
			struct dcp_elem e = f->elem.at[f->path.at[i].elem0 + k];
			e.text = x->map.at[e.text];
			m->elem.at[m->elem.n++] = e;
		}
	}
	if (r >= 0)
		r = map_places(x, f);
	for (size_t i = 0; i < f->bytes.n && r >= 0; i++) {
		struct dcp_bytes b = f->bytes.at[i];
		b.name = x->map.at[b.name];
		b.item.place = x->place.at[x->place0.at[file] + b.item.place];
		if (dcp_bytess_push(&m->bytes, b) < 0)
			r = no_memory(x);
	}
	m->stray += f->stray;
	m->no_paths = m->no_paths || f->no_paths;
	return r;
}

static int by_into(const void *pa, const void *pb)
{
	const struct part *a = pa, *b = pb;

	if (a->into != b->into)
		return a->into < b->into ? -1 : 1;
	return a->file < b->file ? -1 : a->file > b->file;
}

/* Chunk @i of the result's tensor that is being made: its box. */
static void load(const struct dcp_meta *m, const struct dcp_tensor *t, uint32_t i, uint64_t *box)
{
	const struct dcp_run *run;
	uint32_t at = dcp_meta_chunk_at(m, t, i, &run) - run->chunk0;

	for (unsigned k = 0; k < 2u * run->ndim; k++)
		box[k] = dcp_coord(m, run, at, k);
}

/* Is this box there already? Replicas: the first rank's stays. Else it is entered as chunk @chunk. */
static bool seen(struct merge *x, const struct dcp_tensor *t, const uint64_t *box, uint32_t chunk)
{
	size_t at = (size_t)sf_hash(box, 2u * t->ndim * sizeof(*box)) & x->mask;
	uint64_t old[2 * SF_DIMS_MAX];

	for (; x->slot[at]; at = (at + 1) & x->mask) {
		load(x->m, t, x->slot[at] - 1, old);
		if (memcmp(old, box, 2u * t->ndim * sizeof(*box)) == 0)
			return true;
	}
	x->slot[at] = chunk + 1;
	return false;
}

static int merge_tensor(struct merge *x, const struct part *p, size_t n)
{
	struct dcp_meta *m = x->m;
	struct dcp_tensor *t = &m->tensor.at[p->into];
	size_t chunks = 0, cap = 16;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		chunks += x->from[p[i].file].tensor.at[p[i].tensor].nchunks;
	if (chunks > DCP_CHUNKS_MAX)
		return sf_fail(x->err, -E2BIG, "dcp: more than %u chunks", DCP_CHUNKS_MAX);
	while (cap / 2 < chunks)
		cap *= 2;
	x->mask = cap - 1;
	x->slot = calloc(cap, sizeof(*x->slot));
	if (!x->slot)
		return no_memory(x);
	t->run0 = (uint32_t)m->run.n;
	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct dcp_meta *f = &x->from[p[i].file];
		const struct dcp_tensor *ft = &f->tensor.at[p[i].tensor];
		for (uint32_t k = 0; k < ft->nchunks && r >= 0; k++) {
			const struct dcp_run *run;
			uint32_t chunk = dcp_meta_chunk_at(f, ft, k, &run), at;
			uint64_t box[2 * SF_DIMS_MAX];
			for (unsigned d = 0; d < 2u * run->ndim; d++)
				box[d] = dcp_coord(f, run, chunk - run->chunk0, d);
			if (seen(x, t, box, t->nchunks))
				continue;
			if (dcp_meta_chunk(m, box, box + run->ndim, run->ndim, &at) < 0) {
				r = no_memory(x);
				break;
			}
			/* they follow each other in the columns, so equal widths are one run */
			struct dcp_run *mine = &m->run.at[at], *last = t->nruns ? mine - 1 : NULL;
			m->item.at[mine->chunk0] = f->item.at[chunk];
			if (f->item.at[chunk].place != DCP_NONE)
				m->item.at[mine->chunk0].place =
					x->place.at[x->place0.at[p[i].file] +
				                    f->item.at[chunk].place];
			mine->first = t->nchunks++;
			if (last && last->wide == mine->wide) {
				last->count++;
				m->run.n--;
			} else {
				t->nruns++;
			}
		}
	}
	free(x->slot);
	x->slot = NULL;
	return r;
}

int dcp_meta_merge(struct dcp_meta *m, const struct dcp_meta *from, size_t n, struct sf_error *err)
{
	struct merge x = { .m = m, .from = from, .n = n, .err = err };
	int r = 0;

	dcp_meta_release(m);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = merge_names(&x, (uint32_t)i);
	if (r >= 0 && n) {
		m->facts = from[0].facts;
		m->facts.version = DCP_NONE;
		if (from[0].facts.version != DCP_NONE) {
			const struct dcp_str *v = &from[0].str.at[from[0].facts.version];
			r = dcp_meta_str(m, v->at, v->len, &m->facts.version) < 0 ? no_memory(&x)
			                                                          : 0;
		}
	}
	if (r >= 0 && x.parts.n)
		qsort(x.parts.at, x.parts.n, sizeof(*x.parts.at), by_into);
	for (size_t i = 0, k; i < x.parts.n && r >= 0; i = k) {
		for (k = i; k < x.parts.n && x.parts.at[k].into == x.parts.at[i].into; k++)
			;
		r = merge_tensor(&x, x.parts.at + i, k - i);
	}
	parts_release(&x.parts);
	dcp_u32s_release(&x.map);
	dcp_u32s_release(&x.place);
	dcp_u64s_release(&x.place0);
	return r;
}
