#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_scan_state.h"

/* What values mean: BUILD, SETITEMS and APPENDS turn containers into records, STOP turns the rest
 * into keys and paths. */

static int cont_add(struct dcp_scan *s, uint32_t c, const dcp_value *v, size_t n)
{
	struct dcp_cont *k = &s->cont.at[c];
	size_t cap = k->cap;
	void *at = k->at;

	if (k->spent || n > UINT32_MAX / 2 - k->n)
		return DCP_UNKNOWN;
	if (k->n + n > k->cap) {
		if (sf_vec_grow(&at, &cap, k->n + n, sizeof(*v)) < 0)
			return dcp_scan_no_memory(s);
		k->at = at;
		k->cap = (uint32_t)SF_MIN(cap, (size_t)UINT32_MAX);
	}
	if (n)
		memcpy(k->at + k->n, v, n * sizeof(*v));
	k->n += (uint32_t)n;
	return 0;
}

static void cont_spend(struct dcp_scan *s, dcp_value v)
{
	struct dcp_cont *k = &s->cont.at[dcp_num(v)];

	free(k->at);
	*k = (struct dcp_cont){ .spent = true };
}

dcp_value dcp_scan_dict_get(const struct dcp_scan *s, dcp_value dict, uint32_t word)
{
	const struct dcp_cont *c;
	dcp_value found = V_ABSENT;

	if (dcp_tag(dict) != V_DICT)
		return V_ABSENT;
	c = &s->cont.at[dcp_num(dict)];
	if (c->n > 2 * DCP_ATTRIBUTES_MAX)
		return V_ABSENT;
	for (uint32_t i = 0; i + 1 < c->n; i += 2)
		if (c->at[i] == dcp_v(V_STR, word))
			found = c->at[i + 1]; /* the last one wins, as in a dict */
	return found;
}

int dcp_scan_coords(const struct dcp_scan *s, dcp_value v, uint64_t *ret)
{
	const dcp_value *at;

	if (dcp_tag(v) == V_COORDS) { /* coord0 << 8 | ndim; always narrow */
		unsigned n = dcp_num(v) & 255;
		for (unsigned k = 0; k < n; k++)
			ret[k] = s->m->coord.at[(dcp_num(v) >> 8) + k];
		return (int)n;
	}
	if (dcp_tag(v) != V_SIZE && dcp_tag(v) != V_TUPLE)
		return -1;
	at = s->word.at + dcp_num(v);
	if (*at > SF_DIMS_MAX)
		return -1;
	for (uint64_t k = 0; k < *at; k++) {
		if (dcp_tag(at[1 + k]) != V_INT || dcp_int(at[1 + k]) < 0)
			return -1;
		ret[k] = (uint64_t)dcp_int(at[1 + k]);
	}
	return (int)*at;
}

static int build_chunk(struct dcp_scan *s, dcp_value offsets, dcp_value sizes, dcp_value *ret)
{
	uint64_t o[SF_DIMS_MAX], e[SF_DIMS_MAX];
	int n = dcp_scan_coords(s, offsets, o);
	uint32_t run;
	int r;

	if (n < 0 || dcp_scan_coords(s, sizes, e) != n)
		return DCP_UNKNOWN;
	r = dcp_meta_chunk(s->m, o, e, (unsigned)n, &run);
	if (r == -E2BIG)
		return sf_fail(
			s->err, r,
			"dcp '%s': more than %u chunks, or than its %llu bytes have room for",
			s->name, DCP_CHUNKS_MAX, (unsigned long long)s->size);
	if (r < 0)
		return dcp_scan_no_memory(s);
	*ret = dcp_v(V_RUN, run);
	return 0;
}

/* The dtype in a TensorProperties: its state is a tuple (dtype, layout, …), of any length. */
static int props_dtype(const struct dcp_scan *s, dcp_value v)
{
	dcp_value d;

	if (dcp_tag(v) != V_OBJ)
		return SF_DTYPE_NONE;
	v = s->obj.at[dcp_num(v)].state;
	if (dcp_tag(v) == V_TUPLE && s->word.at[dcp_num(v)] > 0)
		d = s->word.at[dcp_num(v) + 1];
	else
		d = dcp_scan_dict_get(s, v, W_DTYPE);
	if (dcp_tag(d) != V_GLOBAL || s->global.at[dcp_num(d)].cls != C_DTYPE)
		return SF_DTYPE_NONE;
	return s->global.at[dcp_num(d)].dtype;
}

static int build_tensor(struct dcp_scan *s, dcp_value props, dcp_value size, dcp_value chunks,
                        dcp_value *ret)
{
	struct dcp_meta *m = s->m;
	struct dcp_tensor t = { .name = DCP_NONE,
		                .shape0 = m->dims.n,
		                .dtype = (uint8_t)props_dtype(s, props) };
	uint64_t shape[SF_DIMS_MAX], nchunks = 0;
	int n = dcp_scan_coords(s, size, shape);
	const struct dcp_cont *list;

	if (n < 0 || t.dtype == SF_DTYPE_NONE || dcp_tag(chunks) != V_LIST ||
	    m->tensor.n >= DCP_OBJECTS_MAX)
		return DCP_UNKNOWN;
	list = &s->cont.at[dcp_num(chunks)];
	if (list->spent)
		return DCP_UNKNOWN;
	t.ndim = (uint8_t)n;
	if (dcp_u64s_reserve(&m->dims, m->dims.n + (size_t)n) < 0)
		return dcp_scan_no_memory(s);
	for (int k = 0; k < n; k++)
		m->dims.at[m->dims.n++] = shape[k];
	/* Runs that continue each other are one; several are copied side by side. */
	t.run0 = (uint32_t)m->run.n;
	for (uint32_t i = 0; i < list->n; i++) {
		dcp_value v = list->at[i];
		struct dcp_run run, *last = t.nruns ? &m->run.at[m->run.n - 1] : NULL;
		if (dcp_tag(v) != V_RUN)
			return DCP_UNKNOWN;
		run = m->run.at[dcp_num(v)];
		if (run.ndim != n)
			return DCP_UNKNOWN;
		if (last && run.chunk0 == last->chunk0 + last->count && run.wide == last->wide &&
		    run.coord0 == last->coord0 + (uint64_t)last->count * 2 * last->ndim *
		                                         (last->wide ? 2 : 1)) {
			last->count += run.count;
		} else {
			run.first = (uint32_t)nchunks;
			if (m->run.n >= DCP_CHUNKS_MAX)
				return DCP_UNKNOWN;
			if (dcp_runs_push(&m->run, run) < 0)
				return dcp_scan_no_memory(s);
			t.nruns++;
		}
		nchunks += run.count;
		if (nchunks > DCP_CHUNKS_MAX)
			return DCP_UNKNOWN;
	}
	t.nchunks = (uint32_t)nchunks;
	if (dcp_tensors_push(&m->tensor, t) < 0)
		return dcp_scan_no_memory(s);
	cont_spend(s, chunks);
	*ret = dcp_v(V_TENSOR, m->tensor.n - 1);
	return 0;
}

static int build_index(struct dcp_scan *s, dcp_value fqn, dcp_value index, dcp_value offset,
                       dcp_value *ret)
{
	struct dcp_rec rec = { .text = (uint32_t)dcp_num(fqn),
		               .a = DCP_NONE,
		               .b = s->coords.n,
		               .ndim = DCP_NO_OFFSET };
	uint64_t o[SF_DIMS_MAX];
	int n;

	if (dcp_tag(fqn) != V_STR)
		return DCP_UNKNOWN;
	if (dcp_tag(index) == V_INT && dcp_int(index) >= 0 && dcp_int(index) < DCP_NONE)
		rec.a = (uint64_t)dcp_int(index); /* a hint: any other value is no hint */
	if (offset != V_ABSENT && dcp_tag(offset) != V_NONE) {
		n = dcp_scan_coords(s, offset, o);
		if (n < 0)
			return DCP_UNKNOWN;
		rec.ndim = (uint8_t)n;
		if (dcp_u64s_reserve(&s->coords, s->coords.n + (size_t)n) < 0)
			return dcp_scan_no_memory(s);
		for (int k = 0; k < n; k++)
			s->coords.at[s->coords.n++] = o[k];
	}
	if (s->rec.n >= DCP_OBJECTS_MAX)
		return DCP_UNKNOWN;
	if (dcp_recs_push(&s->rec, rec) < 0)
		return dcp_scan_no_memory(s);
	*ret = dcp_v(V_INDEX, s->rec.n - 1);
	return 0;
}

static int build_info(struct dcp_scan *s, dcp_value path, dcp_value off, dcp_value len,
                      dcp_value transforms, dcp_value *ret)
{
	struct dcp_rec rec = { .text = (uint32_t)dcp_num(path), .place_transform = DCP_PLAIN };

	if (dcp_tag(path) != V_STR || dcp_tag(off) != V_INT || dcp_tag(len) != V_INT ||
	    dcp_int(off) < 0 || dcp_int(len) < 0)
		return DCP_UNKNOWN;
	rec.a = (uint64_t)dcp_int(off);
	rec.b = (uint64_t)dcp_int(len);
	if (dcp_tag(transforms) == V_LIST) {
		const struct dcp_cont *list = &s->cont.at[dcp_num(transforms)];
		const struct dcp_str *d;
		if (list->spent || list->n > 1)
			return DCP_UNKNOWN;
		if (list->n == 1) {
			if (dcp_tag(list->at[0]) != V_STR)
				return DCP_UNKNOWN;
			d = &s->m->str.at[dcp_num(list->at[0])];
			rec.place_transform = dcp_transform_of(d->at, d->len);
			if (rec.place_transform == DCP_OTHER)
				rec.place_transform += (uint32_t)dcp_num(list->at[0]);
		}
	} else if (transforms != V_ABSENT && dcp_tag(transforms) != V_NONE) {
		return DCP_UNKNOWN;
	}
	if (s->rec.n >= DCP_OBJECTS_MAX)
		return DCP_UNKNOWN;
	if (dcp_recs_push(&s->rec, rec) < 0)
		return dcp_scan_no_memory(s);
	*ret = dcp_v(V_INFO, s->rec.n - 1);
	return 0;
}

/* Which attributes a state has: a bit per word, and their values. */
static uint32_t attributes(const struct dcp_scan *s, dcp_value state, dcp_value v[W_NWORDS])
{
	const struct dcp_cont *c;
	uint32_t bits = 0;

	for (unsigned i = 0; i < W_NWORDS; i++)
		v[i] = V_ABSENT;
	if (dcp_tag(state) != V_DICT)
		return 0;
	c = &s->cont.at[dcp_num(state)];
	if (c->n > 2 * DCP_ATTRIBUTES_MAX)
		return 0;
	for (uint32_t i = 0; i + 1 < c->n; i += 2) {
		if (dcp_tag(c->at[i]) != V_STR || dcp_num(c->at[i]) >= W_NWORDS)
			continue;
		v[dcp_num(c->at[i])] = dcp_made(s, c->at[i + 1]);
		bits |= 1u << dcp_num(c->at[i]);
	}
	return bits;
}
#define BIT(w) (1u << (w))
#define HAS(bits, want) (((bits) & (want)) == (want))

/* BUILD: what an instance is shows in its attributes, whatever module its class lives in. */
int dcp_scan_build(struct dcp_scan *s)
{
	dcp_value v[W_NWORDS], state, obj, ret = V_OPAQUE;
	uint32_t bits;
	int r = 0;

	if (!dcp_has(s, 2))
		return dcp_scan_short(s);
	state = s->stack.at[--s->stack.n];
	obj = s->stack.at[s->stack.n - 1];
	if (dcp_tag(obj) != V_OBJ || s->obj.at[dcp_num(obj)].made || s->obj.at[dcp_num(obj)].state)
		return obj == V_CALLED ? 0 : DCP_UNKNOWN;
	bits = attributes(s, state, v);
	if (HAS(bits, BIT(W_OFFSETS) | BIT(W_SIZES)))
		r = build_chunk(s, v[W_OFFSETS], v[W_SIZES], &ret);
	else if (HAS(bits, BIT(W_RELATIVE_PATH) | BIT(W_OFFSET) | BIT(W_LENGTH)))
		r = build_info(s, v[W_RELATIVE_PATH], v[W_OFFSET], v[W_LENGTH], v[W_TRANSFORMS],
		               &ret);
	else if (HAS(bits, BIT(W_FQN)) && (bits & (BIT(W_INDEX) | BIT(W_OFFSET))))
		r = build_index(s, v[W_FQN], v[W_INDEX], v[W_OFFSET], &ret);
	else if (HAS(bits, BIT(W_PROPERTIES) | BIT(W_SIZE) | BIT(W_CHUNKS)))
		r = build_tensor(s, v[W_PROPERTIES], v[W_SIZE], v[W_CHUNKS], &ret);
	else
		s->obj.at[dcp_num(obj)].state = state;
	if (r == 0 && ret) {
		s->obj.at[dcp_num(obj)].made = ret;
		s->stack.at[s->stack.n - 1] = ret;
		cont_spend(s, state);
	}
	return r;
}

static int add_item(struct dcp_scan *s, uint32_t dict, dcp_value key, dcp_value value)
{
	const struct dcp_rec *index = &s->rec.at[dcp_num(key)], *info = &s->rec.at[dcp_num(value)];
	struct dcp_item item = { .off = info->a, .len = info->b };
	int r;

	if (s->items_in == DCP_NONE)
		s->items_in = dict;
	if (s->items_in != dict)
		return DCP_UNKNOWN;
	if (dcp_meta_place(s->m, info->text, info->place_transform, &item.place) < 0)
		return dcp_scan_no_memory(s);
	s->last_fqn = index->text;
	if (index->ndim == DCP_NO_OFFSET)
		r = dcp_bytess_push(&s->m->bytes,
		                    (struct dcp_bytes){ .item = item, .name = index->text });
	else
		r = dcp_meta_item(s->m, index->text, s->coords.at + index->b, index->ndim,
		                  (uint32_t)index->a, item);
	return r < 0 ? dcp_scan_no_memory(s) : 0;
}

static int set_pair(struct dcp_scan *s, uint32_t dict, dcp_value key, dcp_value value)
{
	dcp_value pair[2] = { dcp_made(s, key), dcp_made(s, value) };

	if (dcp_tag(pair[0]) == V_INDEX && dcp_tag(pair[1]) == V_INFO)
		return add_item(s, dict, pair[0], pair[1]);
	if (dcp_tag(pair[1]) == V_TENSOR) {
		struct dcp_tensor *t = &s->m->tensor.at[dcp_num(pair[1])];
		struct dcp_str *name =
			dcp_tag(pair[0]) == V_STR ? &s->m->str.at[dcp_num(pair[0])] : NULL;
		/* one tensor under two names, or two tensors under one: not here */
		if (!name || t->name != DCP_NONE || name->tensor != DCP_NONE)
			return DCP_UNKNOWN;
		t->name = (uint32_t)dcp_num(pair[0]);
		name->tensor = (uint32_t)dcp_num(pair[1]);
	}
	return cont_add(s, dict, pair, 2);
}

/* SETITEMS from stack position @from on, into what lies below it. */
int dcp_scan_set_items(struct dcp_scan *s, uint32_t from, uint32_t target)
{
	dcp_value dict = s->stack.at[target];
	uint32_t n = (uint32_t)s->stack.n;
	int r = 0;

	s->stack.n = target + 1;
	if (dcp_tag(dict) != V_DICT)
		return dict == V_CALLED ? 0 : DCP_UNKNOWN;
	for (uint32_t i = from; i < n && r == 0;) {
		if (s->stack.at[i] == V_RECORDS) {
			if (s->items_in == DCP_NONE)
				s->items_in = (uint32_t)dcp_num(dict);
			if (s->items_in != dcp_num(dict))
				return DCP_UNKNOWN;
			i++;
		} else if (i + 1 < n) {
			r = set_pair(s, (uint32_t)dcp_num(dict), s->stack.at[i],
			             s->stack.at[i + 1]);
			i += 2;
		} else {
			return dcp_scan_short(s);
		}
	}
	return r;
}

/* APPEND(S); @adds: ADDITEMS. */
int dcp_scan_append_items(struct dcp_scan *s, uint32_t from, uint32_t target, bool adds)
{
	dcp_value list = s->stack.at[target];
	uint32_t n = (uint32_t)s->stack.n - from;

	s->stack.n = target + 1;
	if (dcp_tag(list) != V_LIST || adds)
		return list == (adds ? V_SET : V_CALLED) ? 0 : DCP_UNKNOWN;
	return cont_add(s, (uint32_t)dcp_num(list), s->stack.at + from, n);
}

static dcp_value root_get(const struct dcp_scan *s, dcp_value state, uint32_t word)
{
	return dcp_made(s, dcp_scan_dict_get(s, state, word));
}

static int take_keys(struct dcp_scan *s, dcp_value dict)
{
	struct dcp_meta *m = s->m;
	const struct dcp_cont *c = &s->cont.at[dcp_num(dict)];
	SF_FREE bool *seen = calloc(m->str.n, sizeof(*seen));

	if (!seen || dcp_keys_reserve(&m->key, c->n / 2) < 0)
		return dcp_scan_no_memory(s);
	for (uint32_t i = 0; i + 1 < c->n; i += 2) {
		struct dcp_key key = { .name = (uint32_t)dcp_num(c->at[i]), .tensor = DCP_NONE };
		if (dcp_tag(c->at[i]) != V_STR || seen[key.name])
			return DCP_UNKNOWN; /* of equal keys the value reader takes Python's */
		seen[key.name] = true;
		if (dcp_tag(c->at[i + 1]) == V_TENSOR) {
			key.tensor = (uint32_t)dcp_num(c->at[i + 1]);
			m->tensor.at[key.tensor].taken = true;
		} else if (dcp_tag(c->at[i + 1]) != V_OBJ ||
		           s->global.at[s->obj.at[dcp_num(c->at[i + 1])].global].cls != C_BYTES) {
			return DCP_UNKNOWN;
		}
		m->key.at[m->key.n++] = key;
	}
	for (size_t i = 0; i < m->tensor.n; i++)
		if (!m->tensor.at[i].taken && m->tensor.at[i].name != DCP_NONE)
			return DCP_UNKNOWN; /* joined by a name that was another dict's */
	return 0;
}

/* Python's dict: the last of equal keys gives the path, the first the place. */
static int take_paths(struct dcp_scan *s, dcp_value dict)
{
	struct dcp_meta *m = s->m;
	const struct dcp_cont *c;
	SF_FREE uint32_t *path_of = NULL; /* by string: its path + 1 */

	if (dcp_tag(dict) != V_DICT) {
		m->no_paths = true;
		return dict == V_ABSENT || dcp_tag(dict) == V_NONE ? 0 : DCP_UNKNOWN;
	}
	c = &s->cont.at[dcp_num(dict)];
	path_of = calloc(m->str.n, sizeof(*path_of));
	if (!path_of)
		return dcp_scan_no_memory(s);
	for (uint32_t i = 0; i + 1 < c->n; i += 2) {
		struct dcp_path path = { .key = (uint32_t)dcp_num(c->at[i]),
			                 .elem0 = (uint32_t)m->elem.n };
		const dcp_value *t;
		if (dcp_tag(c->at[i]) != V_STR || dcp_tag(c->at[i + 1]) != V_TUPLE)
			return DCP_UNKNOWN;
		t = s->word.at + dcp_num(c->at[i + 1]);
		if (m->elem.n + *t > m->room)
			return DCP_UNKNOWN;
		path.n = (uint32_t)*t;
		for (uint64_t k = 1; k <= *t; k++) {
			struct dcp_elem e = { .text = (uint32_t)dcp_num(t[k]) };
			if (dcp_tag(t[k]) == V_INT && dcp_int(t[k]) >= 0) {
				char digits[24];
				int n = snprintf(digits, sizeof(digits), "%lld",
				                 (long long)dcp_int(t[k]));
				e.is_int = 1;
				if (dcp_meta_str(m, digits, (size_t)n, &e.text) < 0)
					return dcp_scan_no_memory(s);
			} else if (dcp_tag(t[k]) != V_STR) {
				return DCP_UNKNOWN;
			}
			if (dcp_elems_push(&m->elem, e) < 0)
				return dcp_scan_no_memory(s);
		}
		if (path_of[path.key]) {
			m->path.at[path_of[path.key] - 1] = path;
			continue;
		}
		if (dcp_paths_push(&m->path, path) < 0)
			return dcp_scan_no_memory(s);
		path_of[path.key] = (uint32_t)m->path.n;
	}
	return 0;
}

/* STOP: the one value left is the Metadata. */
int dcp_scan_root(struct dcp_scan *s)
{
	dcp_value root, state, sdm, items, v;
	int r;

	if (s->stack.n == 0 || s->mark.n != 0)
		return dcp_scan_bad(s, "STOP without a value, or behind a mark");
	if (s->stack.n > 1) /* the top one is the pickle's, as Python has it */
		return DCP_UNKNOWN;
	root = s->stack.at[0];
	if (dcp_tag(root) != V_OBJ || s->obj.at[dcp_num(root)].made)
		return DCP_UNKNOWN;
	state = s->obj.at[dcp_num(root)].state;
	sdm = root_get(s, state, W_STATE_DICT_METADATA);
	if (dcp_tag(sdm) != V_DICT)
		return DCP_UNKNOWN;
	r = take_keys(s, sdm);
	if (r == 0)
		r = take_paths(s, root_get(s, state, W_PLANNER_DATA));
	if (r != 0)
		return r;
	items = root_get(s, state, W_STORAGE_DATA);
	if (s->items_in != DCP_NONE && items != dcp_v(V_DICT, s->items_in))
		return DCP_UNKNOWN;
	if (dcp_tag(items) == V_DICT && s->cont.at[dcp_num(items)].n != 0)
		return DCP_UNKNOWN; /* entries that are not (MetadataIndex, _StorageInfo) */
	if (dcp_tag(items) != V_DICT && dcp_tag(items) != V_NONE && items != V_ABSENT)
		return DCP_UNKNOWN;
	v = root_get(s, state, W_VERSION);
	if (dcp_tag(v) == V_STR)
		s->m->facts.version = (uint32_t)dcp_num(v);
	v = root_get(s, state, W_STORAGE_META);
	if (dcp_tag(v) == V_OBJ) {
		s->m->facts.has_storage_meta = true;
		s->m->facts.has_modules = dcp_tag(dcp_scan_dict_get(s, s->obj.at[dcp_num(v)].state,
		                                                    W_MODULES)) == V_LIST;
	}
	return 0;
}
