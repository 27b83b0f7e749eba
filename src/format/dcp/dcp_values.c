#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/dcp/dcp_values.h"
#include "parse/pickle_read.h"
#include "store/source.h"

/*
 * Straight and slow: find the attributes in value trees. It takes what the scanner gives up on, and
 * it is what the scanner is tested against, so the two share nothing but dcp_meta.
 */

/* of values: a metadata file of DCP_SLOW_MAX bytes, whatever is in it */
#define VALUES_MAX ((size_t)8 << 30)

struct values {
	struct dcp_meta *m;
	struct sf_error *err;
};

static int no_memory(struct values *x)
{
	return sf_fail(x->err, -ENOMEM, "no memory for the values");
}

/* Attribute of an instance: in BUILD's dict, or the dict part of a (dict, slots) pair. */
static const struct sf_pv *attr(const struct sf_pv *v, const char *name)
{
	const struct sf_pv *state, *found = NULL;

	if (v->kind != SF_PV_OBJECT && v->kind != SF_PV_CALL)
		return NULL;
	state = v->call.state;
	if (!state || state->kind != SF_PV_DICT || state->seq.n > 2 * DCP_ATTRIBUTES_MAX)
		return NULL;
	for (size_t i = 0; i + 1 < state->seq.n; i += 2)
		if (sf_pv_is_str(state->seq.at[i], name))
			found = state->seq.at[i + 1];
	return found;
}

static bool class_named(const struct sf_pv *v, const char *name)
{
	return v->kind == SF_PV_OBJECT && v->call.callable &&
	       v->call.callable->kind == SF_PV_GLOBAL &&
	       sf_pv_is_str(v->call.callable->global.name, name);
}

/* What the module of an instance's class tells about the writer. */
static void note_class(struct values *x, const struct sf_pv *v)
{
	static const char shard[] = "torch.distributed._shard.checkpoint.";
	const struct sf_pv *module;

	if (!v || v->kind != SF_PV_OBJECT || !v->call.callable ||
	    v->call.callable->kind != SF_PV_GLOBAL)
		return;
	module = v->call.callable->global.module;
	if (module->kind != SF_PV_STR)
		return;
	if (module->str.len >= sizeof(shard) - 1 &&
	    memcmp(module->str.at, shard, sizeof(shard) - 1) == 0)
		x->m->facts.shard_package = true;
	if (class_named(v, "TensorProperties") &&
	    sf_pv_is_str(module, "torch.distributed.checkpoint.metadata"))
		x->m->facts.props_in_checkpoint = true;
	if (class_named(v, "_StorageInfo") && module->str.len >= 9 &&
	    memcmp(module->str.at, "olmo_core", 9) == 0)
		x->m->facts.olmo = true;
}

/* A dict, also an OrderedDict: its pairs. NULL when it is none. */
static const struct sf_pv *dict_of(const struct sf_pv *v)
{
	static const struct sf_pv empty = { .kind = SF_PV_DICT };

	if (!v)
		return NULL;
	if (v->kind == SF_PV_DICT)
		return v;
	if ((v->kind == SF_PV_CALL || v->kind == SF_PV_OBJECT) && v->call.callable &&
	    sf_pv_is_global(v->call.callable, "collections", "OrderedDict"))
		return v->call.items ? v->call.items : &empty;
	return NULL;
}

static int fail_at(struct values *x, const struct sf_pv *key, const char *what)
{
	if (key && key->kind == SF_PV_STR)
		return sf_fail(x->err, -EBADMSG, "'%.*s': %s",
		               (int)SF_MIN(key->str.len, (size_t)200), key->str.at, what);
	return sf_fail(x->err, -EBADMSG, "%s", what);
}

/* A torch.Size, or a bare tuple or list, of numbers ≥ 0: how many, -1 when it is none. */
static int coords(const struct sf_pv *v, uint64_t *ret)
{
	if (v && v->kind == SF_PV_CALL && v->call.callable &&
	    sf_pv_is_global(v->call.callable, "torch", "Size")) {
		if (!v->call.args || v->call.args->kind != SF_PV_TUPLE || v->call.args->seq.n != 1)
			return -1;
		v = v->call.args->seq.at[0];
	}
	if (!v || (v->kind != SF_PV_TUPLE && v->kind != SF_PV_LIST) || v->seq.n > SF_DIMS_MAX)
		return -1;
	for (size_t k = 0; k < v->seq.n; k++)
		if (!sf_pv_u64(v->seq.at[k], &ret[k]))
			return -1;
	return (int)v->seq.n;
}

/* A text that is shared is looked up once: it may be long, and named at every turn. The tree is
 * ours, and nobody else marks it. */
static int str_of(struct values *x, const struct sf_pv *v, uint32_t *ret)
{
	if (!v->mark) {
		if (dcp_meta_str(x->m, v->str.at, v->str.len, ret) < 0)
			return no_memory(x);
		((struct sf_pv *)(uintptr_t)v)->mark = *ret + 1;
	}
	*ret = v->mark - 1;
	return 0;
}

/* torch.<dtype> of a TensorProperties, NULL without. */
static const struct sf_pv *dtype_in(const struct sf_pv *props)
{
	const struct sf_pv *state, *d = NULL;

	if (!props || (props->kind != SF_PV_OBJECT && props->kind != SF_PV_CALL))
		return NULL;
	/* one that was called has its arguments, in the order of the state */
	state = props->call.state           ? props->call.state
	        : props->kind == SF_PV_CALL ? props->call.args
	                                    : NULL;
	if (!state)
		return NULL;
	if ((state->kind == SF_PV_TUPLE || state->kind == SF_PV_LIST) && state->seq.n > 0)
		d = state->seq.at[0];
	else if (state->kind == SF_PV_DICT)
		d = attr(props, "dtype");
	return d && d->kind == SF_PV_GLOBAL && sf_pv_is_str(d->global.module, "torch") &&
	                       d->global.name->kind == SF_PV_STR
	               ? d->global.name
	               : NULL;
}

/* SF_DTYPE_NONE of one that torch has and this program does not. */
static enum sf_dtype dtype_of(const struct sf_pv *props)
{
	const struct sf_pv *name = dtype_in(props);

	return name ? sf_dtype_by_torch(name->str.at, name->str.len) : SF_DTYPE_NONE;
}

static int take_tensor(struct values *x, const struct sf_pv *key, const struct sf_pv *v,
                       uint32_t name)
{
	struct dcp_meta *m = x->m;
	const struct sf_pv *size = attr(v, "size"), *chunks = attr(v, "chunks");
	struct dcp_tensor t = { .name = name,
		                .shape0 = m->dims.n,
		                .dtype = (uint8_t)dtype_of(attr(v, "properties")) };
	uint64_t shape[SF_DIMS_MAX], o[SF_DIMS_MAX], e[SF_DIMS_MAX];
	int n = coords(size, shape), r;

	note_class(x, v);
	note_class(x, attr(v, "properties"));
	if (n < 0)
		return fail_at(x, key, "its size is not a torch.Size of at most 64 numbers");
	if (t.dtype == SF_DTYPE_NONE && !dtype_in(attr(v, "properties")))
		return fail_at(x, key, "its properties name no dtype");
	if (!chunks || (chunks->kind != SF_PV_LIST && chunks->kind != SF_PV_TUPLE))
		return fail_at(x, key, "its chunks are not a list");
	t.ndim = (uint8_t)n;
	t.run0 = (uint32_t)m->run.n;
	if (dcp_u64s_reserve(&m->dims, m->dims.n + (size_t)n) < 0)
		return no_memory(x);
	for (int k = 0; k < n; k++)
		m->dims.at[m->dims.n++] = shape[k];
	for (size_t i = 0; i < chunks->seq.n; i++) {
		struct dcp_run *last, *run;
		uint32_t at;
		if (coords(attr(chunks->seq.at[i], "offsets"), o) != n ||
		    coords(attr(chunks->seq.at[i], "sizes"), e) != n)
			return sf_fail(x->err, -EBADMSG,
			               "'%.*s': chunk %zu is not a box of %d dimensions",
			               (int)SF_MIN(key->str.len, (size_t)200), key->str.at, i, n);
		r = dcp_meta_chunk(m, o, e, (unsigned)n, &at);
		if (r < 0)
			return r == -E2BIG ? sf_fail(x->err, r,
			                             "more than %u chunks, or than the file has "
			                             "room for",
			                             DCP_CHUNKS_MAX)
			                   : no_memory(x);
		run = &m->run.at[at];
		last = t.nruns ? run - 1 : NULL;
		run->first = t.nchunks++;
		if (last &&
		    last->wide ==
		            run->wide) { /* made one after another: they continue each other */
			last->count++;
			m->run.n--;
		} else {
			t.nruns++;
		}
	}
	if (dcp_tensors_push(&m->tensor, t) < 0)
		return no_memory(x);
	m->str.at[name].tensor = (uint32_t)m->tensor.n - 1;
	return 0;
}

static int take_keys(struct values *x, const struct sf_pv *dict)
{
	int r;

	for (size_t i = 0; i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *k = dict->seq.at[i], *v = dict->seq.at[i + 1];
		struct dcp_key key = { .tensor = DCP_NONE };
		if (k->kind != SF_PV_STR)
			return fail_at(x, NULL, "a key of state_dict_metadata is not a string");
		r = str_of(x, k, &key.name);
		if (r < 0)
			return r;
		if (!class_named(v, "BytesStorageMetadata")) {
			if (!attr(v, "chunks"))
				return fail_at(x, k, "neither a tensor nor bytes");
			if (x->m->str.at[key.name].tensor != DCP_NONE)
				return fail_at(x, k, "two tensors of this name");
			r = take_tensor(x, k, v, key.name);
			if (r < 0)
				return r;
			key.tensor = (uint32_t)x->m->tensor.n - 1;
		}
		if (dcp_keys_push(&x->m->key, key) < 0)
			return no_memory(x);
	}
	return 0;
}

static int take_paths(struct values *x, const struct sf_pv *v)
{
	const struct sf_pv *dict = dict_of(v);
	int r;

	if (!dict) {
		x->m->no_paths = true;
		return 0;
	}
	for (size_t i = 0; i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *k = dict->seq.at[i], *p = dict->seq.at[i + 1];
		struct dcp_path path = { .elem0 = (uint32_t)x->m->elem.n };
		if (k->kind != SF_PV_STR || (p->kind != SF_PV_TUPLE && p->kind != SF_PV_LIST))
			continue; /* a planner of its own: the key is then its own path */
		if (x->m->elem.n + p->seq.n > x->m->room)
			return sf_fail(x->err, -E2BIG,
			               "more path elements than the file has bytes");
		r = str_of(x, k, &path.key);
		for (size_t n = 0; r >= 0 && n < p->seq.n; n++) {
			const struct sf_pv *e = p->seq.at[n];
			struct dcp_elem elem = { .is_int = e->kind == SF_PV_INT };
			char digits[24];
			if (e->kind == SF_PV_INT) {
				int len = snprintf(digits, sizeof(digits), "%" PRId64, e->i);
				r = e->i < 0 ? fail_at(x, k, "a negative number in its path") : 0;
				if (r == 0 &&
				    dcp_meta_str(x->m, digits, (size_t)len, &elem.text) < 0)
					r = no_memory(x);
			} else if (e->kind == SF_PV_STR) {
				r = str_of(x, e, &elem.text);
			} else {
				r = fail_at(x, k, "its path holds neither text nor number");
			}
			if (r >= 0 && dcp_elems_push(&x->m->elem, elem) < 0)
				r = no_memory(x);
			path.n++;
		}
		if (r >= 0 && dcp_paths_push(&x->m->path, path) < 0)
			r = no_memory(x);
		if (r < 0)
			return r;
	}
	return 0;
}

static int transform_of(struct values *x, const struct sf_pv *list, uint32_t *ret)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf text = { .limit = 65536 };
	uint32_t str;

	*ret = DCP_PLAIN;
	if (!list || list->kind == SF_PV_NONE)
		return 0;
	if (list->kind != SF_PV_LIST && list->kind != SF_PV_TUPLE) {
		sf_buf_str(&text, "(no list)");
	} else {
		for (size_t i = 0; i < list->seq.n; i++) {
			if (i)
				sf_buf_byte(&text, ',');
			if (list->seq.at[i]->kind == SF_PV_STR)
				sf_buf_add(&text, list->seq.at[i]->str.at,
				           list->seq.at[i]->str.len);
			else
				sf_buf_str(&text, "(no text)");
		}
	}
	if (sf_buf_check(&text) < 0)
		return sf_fail(x->err, sf_buf_check(&text),
		               "transform_descriptors of more than 65,536 bytes");
	*ret = dcp_transform_of((const char *)text.at, text.len);
	if (*ret != DCP_OTHER)
		return 0;
	if (dcp_meta_str(x->m, (const char *)text.at, text.len, &str) < 0)
		return no_memory(x);
	*ret = DCP_OTHER + str;
	return 0;
}

static int take_items(struct values *x, const struct sf_pv *v)
{
	const struct sf_pv *dict = dict_of(v);
	uint64_t o[SF_DIMS_MAX], hint;
	int r;

	if (!dict)
		return v && v->kind != SF_PV_NONE
		               ? sf_fail(x->err, -EBADMSG, "storage_data is not a dict")
		               : 0;
	for (size_t i = 0; i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *k = dict->seq.at[i], *s = dict->seq.at[i + 1];
		const struct sf_pv *fqn = attr(k, "fqn"), *path = attr(s, "relative_path"),
				   *offset = attr(k, "offset");
		const struct sf_pv *index = attr(k, "index");
		struct dcp_item item;
		uint32_t name, file, transform;
		int n;
		note_class(x, s);
		if (!fqn || fqn->kind != SF_PV_STR)
			return sf_fail(x->err, -EBADMSG,
			               "storage_data entry %zu: its key has no fqn", i / 2);
		if (!path || path->kind != SF_PV_STR || !attr(s, "offset") ||
		    !sf_pv_u64(attr(s, "offset"), &item.off) || !attr(s, "length") ||
		    !sf_pv_u64(attr(s, "length"), &item.len))
			return fail_at(x, fqn, "its item has no relative_path, offset and length");
		r = str_of(x, fqn, &name);
		if (r >= 0)
			r = str_of(x, path, &file);
		if (r >= 0)
			r = transform_of(x, attr(s, "transform_descriptors"), &transform);
		if (r >= 0 && dcp_meta_place(x->m, file, transform, &item.place) < 0)
			r = no_memory(x);
		if (r < 0)
			return r;
		if (!offset || offset->kind == SF_PV_NONE) {
			struct dcp_bytes bytes = { .item = item, .name = name };
			if (dcp_bytess_push(&x->m->bytes, bytes) < 0)
				return no_memory(x);
			continue;
		}
		n = coords(offset, o);
		if (n < 0)
			return fail_at(
				x, fqn,
				"the offset of an item is not a torch.Size of at most 64 numbers");
		if (!index || !sf_pv_u64(index, &hint) || hint > DCP_NONE)
			hint = DCP_NONE;
		if (dcp_meta_item(x->m, name, o, (unsigned)n, (uint32_t)hint, item) < 0)
			return no_memory(x);
	}
	return 0;
}

/* Megatron's: see dcp_scan_build.c. */
static int take_flat(struct values *x, const struct sf_pv *v)
{
	const struct sf_pv *dict = v ? dict_of(v) : NULL;
	uint64_t shape[SF_DIMS_MAX];
	uint32_t name;
	int n, r = 0;

	if (!dict) /* another's attribute of that name, if there is one */
		return 0;
	x->m->facts.mcore_data = true;
	for (size_t i = 0; i + 1 < dict->seq.n && r >= 0; i += 2) {
		const struct sf_pv *k = dict->seq.at[i], *of = dict_of(dict->seq.at[i + 1]);
		const struct sf_pv *flat =
			of ? sf_pv_get(of, "nd_reformulated_orig_global_shape") : NULL;
		if (k->kind != SF_PV_STR || !flat)
			continue;
		n = coords(flat, shape);
		if (n < 0)
			return fail_at(x, k,
			               "its shape in mcore_data is not one of at most 64 numbers");
		r = str_of(x, k, &name);
		if (r >= 0 && dcp_meta_flat(x->m, name, shape, (unsigned)n) < 0)
			r = no_memory(x);
	}
	return r;
}

static int take_root(struct values *x, const struct sf_pv *root)
{
	const struct sf_pv *sdm = attr(root, "state_dict_metadata"), *v;
	int r;

	note_class(x, root);
	if (!sdm || !dict_of(sdm))
		return sf_fail(
			x->err, -EBADMSG,
			"the pickle is not a Metadata object: it has no dict state_dict_metadata");
	r = take_keys(x, dict_of(sdm));
	if (r >= 0)
		r = take_paths(x, attr(root, "planner_data"));
	if (r >= 0)
		r = take_items(x, attr(root, "storage_data"));
	if (r >= 0)
		r = take_flat(x, attr(root, "mcore_data"));
	x->m->facts.mcore_class = class_named(root, "MCoreMetadata");
	if (r < 0)
		return r;
	v = attr(root, "version");
	if (v && v->kind == SF_PV_STR)
		r = str_of(x, v, &x->m->facts.version);
	v = attr(root, "storage_meta");
	if (v && v->kind == SF_PV_OBJECT) {
		x->m->facts.has_storage_meta = true;
		v = attr(v, "modules");
		x->m->facts.has_modules = v && v->kind == SF_PV_LIST;
	}
	return r;
}

int dcp_values_read(struct dcp_meta *m, struct sf_source *src, const char *name,
                    struct sf_error *err)
{
	const struct sf_pickle_limits limits = { .memory = VALUES_MAX };
	struct values x = { .m = m, .err = err };
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
	SF_FREE uint8_t *at = NULL;
	struct sf_pv *root;
	uint64_t len;
	size_t used;
	int r;

	(void)name; /* the caller puts it in front */
	m->facts.version = DCP_NONE;
	m->room = src->size;
	r = sf_source_read_all(src, DCP_SLOW_MAX, SF_FETCH_METADATA, &at, &len, err);
	if (r < 0)
		return r;
	r = sf_pickle_parse(at, (size_t)len, &limits, &arena, &root, &used, err);
	if (r < 0)
		return r;
	if (len >= 2 && at[0] == 0x80)
		m->facts.protocol = at[1];
	return take_root(&x, root);
}
