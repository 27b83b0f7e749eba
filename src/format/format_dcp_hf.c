#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "format/format.h"
#include "format/format_dcp.h"
#include "format/format_dcp_lower.h"
#include "parse/safetensors.h"
#include "store/source.h"

/*
 * Files of safetensors: one, several with an index, or DCP's shards, whose headers say where each
 * part of a tensor lies. Source: pytorch/pytorch torch/distributed/checkpoint/hf_storage.py and
 * _hf_utils.py, 2.14; huggingface/transformers' modeling_utils (index; weight_map is followed,
 * never the names' pattern).
 */

#define INDEX_NAME "model.safetensors.index.json"
#define INDEX_MAX (UINT64_C(1) << 30) /* bytes: 100 a key */
#define HEAD_FIRST 65536u             /* bytes read at once: the headers of most files */

struct piece { /* one tensor of one file */
	const struct sf_st_tensor *t;
	uint64_t origin0; /* in origins[] */
	uint64_t data_off;
	uint32_t file; /* place */
	uint32_t key;  /* keys[] */
};
struct hf_key {
	const char *name;
	uint32_t len;
	uint32_t npieces;
};
SF_VEC(pieces, struct piece);
SF_VEC(hf_keys, struct hf_key);
SF_VEC(names, const char *);
SF_VEC(origins, uint64_t);

struct hf {
	struct sf_store *store;
	const struct sf_objinfo *files;
	size_t nfiles;
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct sf_arena arena; /* headers */
	struct names names;    /* files to read */
	struct pieces pieces;
	struct hf_keys keys;
	struct origins origins;
	struct sf_map key_map, file_map;
	const struct cJSON *weight_map; /* NULL without index */
	uint32_t *key_file;             /* by key of the index: names[] */
	uint32_t nindexed;              /* keys that the index named; 0 without */
	bool sharded;                   /* some header has sharding info */
	int64_t mtime;
};

static void free_json(struct sf_json **j)
{
	sf_json_free(*j);
}

static bool is_safetensors(const char *name, bool below)
{
	size_t n = strlen(name);
	static const char dir[] = "sharded/";

	if (below) {
		if (strncmp(name, dir, sizeof(dir) - 1) != 0)
			return false;
		name += sizeof(dir) - 1;
		n -= sizeof(dir) - 1;
	}
	return n > 12 && strcmp(name + n - 12, ".safetensors") == 0 && !strchr(name, '/');
}

static size_t count(const struct sf_objinfo *files, size_t n, bool below)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += is_safetensors(files[i].name, below);
	return found;
}

static int hf_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                    struct sf_error *err)
{
	(void)store;
	(void)err;
	return dcp_listed(files, n, INDEX_NAME) || count(files, n, false) ? 45
	       : count(files, n, true)                                    ? 35
	                                                                  : 0;
}

static int same_key(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct hf_key *k = &((const struct hf *)arg)->keys.at[value];

	return k->len == len && memcmp(k->name, key, len) == 0;
}
static int same_file(void *arg, uint32_t value, const char *key, size_t len)
{
	const char *name = ((const struct hf *)arg)->names.at[value];

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

static int no_memory(struct hf *h)
{
	return sf_fail(h->err, -ENOMEM, "safetensors: no memory for %zu keys of %zu files",
	               h->keys.n, h->names.n);
}

/* Key @name, a new one if need be; @name lives in the arena or the index. */
static int key_of(struct hf *h, const char *name, size_t len, uint32_t *ret)
{
	uint32_t at = sf_map_get(&h->key_map, name, len, same_key, h);
	int failed = 0;

	if (at == SF_MAP_NONE) {
		struct hf_key k = { .name = name, .len = (uint32_t)len };
		if (len > DCP_STRING_MAX || hf_keys_push(&h->keys, k) < 0)
			return no_memory(h);
		at = (uint32_t)h->keys.n - 1;
		sf_map_add(&h->key_map, name, len, at, same_key, h, &failed);
	}
	*ret = at;
	return failed ? no_memory(h) : 0;
}

static int file_of(struct hf *h, const char *name, uint32_t *ret)
{
	size_t len = strlen(name);
	uint32_t at = sf_map_get(&h->file_map, name, len, same_file, h);
	int failed = 0;

	if (at == SF_MAP_NONE) {
		if (names_push(&h->names, name) < 0)
			return no_memory(h);
		at = (uint32_t)h->names.n - 1;
		sf_map_add(&h->file_map, name, len, at, same_file, h, &failed);
	}
	*ret = at;
	return failed ? no_memory(h) : 0;
}

/* The index's keys, in its order, and which file each should be in. */
static int take_index(struct hf *h, const struct sf_json *index)
{
	const struct cJSON *map, *item;
	size_t n = 0;
	int r = sf_json_get_obj(sf_json_root(index), "weight_map", &map, h->err);

	if (r < 0)
		return sf_fail_ctx(h->err, r, "'%s'", INDEX_NAME);
	for (item = sf_json_next(map, NULL); item; item = sf_json_next(map, item))
		n++;
	h->key_file = sf_alloc_array(n, sizeof(*h->key_file));
	if (!h->key_file)
		return no_memory(h);
	for (item = sf_json_next(map, NULL); item && r >= 0; item = sf_json_next(map, item)) {
		const char *file = sf_json_str(item), *name = sf_json_name(item);
		uint32_t key;
		if (!file || !name)
			return sf_fail(h->err, -EBADMSG, "'%s': weight_map of '%.200s' is no text",
			               INDEX_NAME, name ? name : "");
		r = key_of(h, name, strlen(name), &key);
		if (r >= 0 && key == h->nindexed)
			r = file_of(h, file, &h->key_file[h->nindexed++]);
	}
	return r;
}

/* Which files make the checkpoint when no index says so? */
static int take_listing(struct hf *h)
{
	bool below = count(h->files, h->nfiles, false) == 0;
	const char *whole = dcp_listed(h->files, h->nfiles, "model.safetensors")
	                            ? "model.safetensors"
	                    : dcp_listed(h->files, h->nfiles, "adapter_model.safetensors")
	                            ? "adapter_model.safetensors"
	                            : NULL;
	bool numbered = false;
	uint32_t at;
	int r = 0;

	/* One whole file beats others beside it (another framework's or precision's copy), and
	 * model-…-of-… beats consolidated.* */
	if (whole)
		return file_of(h, whole, &at);
	for (size_t i = 0; i < h->nfiles; i++)
		numbered = numbered || (is_safetensors(h->files[i].name, below) &&
		                        strstr(h->files[i].name, "-of-"));
	for (size_t i = 0; i < h->nfiles && r >= 0; i++)
		if (is_safetensors(h->files[i].name, below) &&
		    (!numbered || strstr(h->files[i].name, "-of-")))
			r = file_of(h, h->files[i].name, &at);
	return r;
}

static int read_header(struct hf *h, const char *name, struct sf_st_header *ret)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *at = NULL;
	uint64_t len, first;
	int r = h->store->ops->open(h->store, name, NULL, &src, h->err);

	if (r < 0)
		return r;
	first = SF_MIN(src->size, (uint64_t)HEAD_FIRST);
	if (first < 8)
		return sf_fail(h->err, -EBADMSG,
		               "'%s': %llu bytes, a safetensors file has 8 at least", name,
		               (unsigned long long)src->size);
	at = malloc(HEAD_FIRST);
	if (!at)
		return no_memory(h);
	r = sf_source_read(src, 0, at, first, SF_FETCH_HEADER, h->err);
	if (r < 0)
		return r;
	len = sf_le64(at);
	if (len > SF_ST_HEADER_MAX || len > src->size - 8)
		return sf_fail(
			h->err, -EBADMSG,
			"'%s': header of %llu bytes, the file has %llu, the format's limit is %u",
			name, (unsigned long long)len, (unsigned long long)src->size,
			SF_ST_HEADER_MAX);
	if (len + 8 > first) {
		uint8_t *more = realloc(at, (size_t)len + 8);
		if (!more)
			return no_memory(h);
		at = more;
		r = sf_source_read(src, first, at + first, len + 8 - first, SF_FETCH_HEADER,
		                   h->err);
		if (r < 0)
			return r;
	}
	r = sf_st_parse(at + 8, (size_t)len, &h->arena, ret, h->err);
	return r < 0 ? sf_fail_ctx(h->err, r, "'%s'", name) : 0;
}

/* DCP_SHARDING_INFO: { fqn: { "saved_offsets": [...] } }, found by name. */
struct sharding {
	struct sf_json *json; /* NULL: the file has none */
	const struct cJSON **at;
	struct sf_map map;
};

static void sharding_release(struct sharding *x)
{
	sf_json_free(x->json);
	free(x->at);
	sf_map_release(&x->map);
}

static int same_fqn(void *arg, uint32_t value, const char *key, size_t len)
{
	const char *name = sf_json_name(((const struct sharding *)arg)->at[value]);

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

static int read_sharding(struct hf *h, const char *text, struct sharding *x)
{
	const struct cJSON *root, *item;
	size_t n = 0;
	int failed = 0, r = sf_json_parse(text, strlen(text), &x->json, h->err);

	if (r < 0)
		return sf_fail_ctx(h->err, r, "DCP_SHARDING_INFO");
	root = sf_json_root(x->json);
	for (item = sf_json_next(root, NULL); item; item = sf_json_next(root, item))
		n++;
	x->at = sf_alloc_array(n, sizeof(*x->at));
	if (!x->at || sf_map_reserve(&x->map, n) < 0)
		return no_memory(h);
	n = 0;
	for (item = sf_json_next(root, NULL); item && !failed; item = sf_json_next(root, item)) {
		const char *name = sf_json_name(item);
		uint32_t there;
		if (!name)
			return sf_fail(h->err, -EBADMSG, "DCP_SHARDING_INFO is no object");
		x->at[n] = item;
		there = sf_map_add(&x->map, name, strlen(name), (uint32_t)n, same_fqn, x, &failed);
		if (there == SF_MAP_NONE)
			n++;
		else
			x->at[there] = item; /* the last of equal names */
	}
	return failed ? no_memory(h) : 0;
}

static int origin_of(struct hf *h, struct sharding *x, const struct sf_st_tensor *t, uint64_t *ret)
{
	uint32_t at;
	int r;

	for (unsigned k = 0; k < t->ndim; k++)
		ret[k] = 0;
	if (!x->json || !t->ndim)
		return 0;
	at = sf_map_get(&x->map, t->name, t->name_len, same_fqn, x);
	if (at == SF_MAP_NONE)
		return 0; /* one full chunk */
	r = sf_json_get_u64s(x->at[at], "saved_offsets", ret, t->ndim, h->err);
	if (r >= 0 && r != t->ndim)
		r = sf_fail(h->err, -EBADMSG, "%d saved_offsets for %u dimensions", r, t->ndim);
	return r < 0 ? sf_fail_ctx(h->err, r, "DCP_SHARDING_INFO of '%.200s'", t->name) : 0;
}

static int take_file(struct hf *h, uint32_t file)
{
	SF_CLEANUP(sharding_release) struct sharding info = { 0 };
	const char *name = h->names.at[file];
	struct sf_st_header head;
	uint32_t place;
	int r;

	if (!dcp_listed(h->files, h->nfiles, name))
		return 0; /* only an index can name it: warned about there */
	r = sf_ckpt_builder_place(h->b, name, strlen(name), SF_ITEM_RAW, SF_TRANSFORM_NONE, &place,
	                          h->err);
	if (r >= 0)
		r = read_header(h, name, &head);
	if (r >= 0 && head.sharding_info) {
		r = read_sharding(h, head.sharding_info, &info);
		h->sharded = true;
	}
	if (r < 0)
		return sf_fail_ctx(h->err, r, "'%s'", name);
	for (size_t i = 0; i < head.n && r >= 0; i++) {
		struct piece p = { .t = &head.at[i],
			           .origin0 = h->origins.n,
			           .data_off = head.data_off,
			           .file = place };
		r = key_of(h, head.at[i].name, head.at[i].name_len, &p.key);
		if (r < 0)
			break;
		if (h->nindexed && (p.key >= h->nindexed || h->key_file[p.key] != file))
			continue; /* the index gives this name to another file, or to none */
		if (origins_reserve(&h->origins, h->origins.n + p.t->ndim) < 0 ||
		    pieces_push(&h->pieces, p) < 0)
			return no_memory(h);
		r = origin_of(h, &info, p.t, h->origins.at + h->origins.n);
		h->origins.n += p.t->ndim;
		h->keys.at[p.key].npieces++;
	}
	return r < 0 ? sf_fail_ctx(h->err, r, "'%s'", name) : 0;
}

/* Global size: as far as any part reaches. Trailing empty parts are not visible: the format does
 * not say more. */
static int lower_key(struct hf *h, const struct hf_key *key, const uint32_t *list)
{
	const struct piece *first = &h->pieces.at[list[0]];
	uint64_t shape[SF_DIMS_MAX] = { 0 }, end;
	uint32_t tensor, chunks = 0;
	bool whole = false;
	int r;

	for (uint32_t i = 0; i < key->npieces; i++) {
		const struct piece *p = &h->pieces.at[list[i]];
		if (p->t->dtype != first->t->dtype || p->t->ndim != first->t->ndim)
			return sf_fail(h->err, -EBADMSG,
			               "'%.*s': its parts have different dtypes or dimensions",
			               (int)SF_MIN(key->len, 200u), key->name);
		for (unsigned k = 0; k < p->t->ndim; k++) {
			if (!sf_add(h->origins.at[p->origin0 + k], p->t->shape[k], &end))
				return sf_fail(h->err, -EBADMSG,
				               "'%.*s': a part at %llu of %llu elements",
				               (int)SF_MIN(key->len, 200u), key->name,
				               (unsigned long long)h->origins.at[p->origin0 + k],
				               (unsigned long long)p->t->shape[k]);
			shape[k] = SF_MAX(shape[k], end);
		}
	}
	r = sf_ckpt_builder_tensor(h->b, key->name, key->len, (enum sf_dtype)first->t->dtype, shape,
	                           first->t->ndim, &tensor, h->err);
	for (uint32_t i = 0; i < key->npieces && r >= 0; i++) {
		const struct piece *p = &h->pieces.at[list[i]];
		/* The same box again is a copy (replicated, or two files of one model side by
		 * side). */
		for (uint32_t k = 0; k < i && k < 8 && !whole; k++) {
			const struct piece *q = &h->pieces.at[list[k]];
			whole = p->t->ndim == 0 ||
			        (memcmp(p->t->shape, q->t->shape, p->t->ndim * sizeof(uint64_t)) ==
			                 0 &&
			         memcmp(h->origins.at + p->origin0, h->origins.at + q->origin0,
			                p->t->ndim * sizeof(uint64_t)) == 0);
		}
		if (whole) {
			whole = false;
			continue;
		}
		r = sf_ckpt_builder_chunk(h->b, h->origins.at + p->origin0, p->t->shape, h->err);
		if (r >= 0)
			sf_ckpt_builder_set_item(h->b, tensor, chunks++, p->file,
			                         p->data_off + p->t->begin,
			                         p->t->end - p->t->begin);
	}
	return r;
}

static int lower(struct hf *h)
{
	SF_FREE uint32_t *list = sf_alloc_array(h->pieces.n, sizeof(*list));
	SF_FREE size_t *start = sf_alloc_array(h->keys.n + 1, sizeof(*start));
	int r = list && start ? 0 : no_memory(h);

	/* pieces by key, in order of files: a counting sort */
	if (r >= 0) {
		start[0] = 0;
		for (size_t i = 0; i < h->keys.n; i++)
			start[i + 1] = start[i] + h->keys.at[i].npieces;
		for (size_t i = 0; i < h->pieces.n; i++)
			list[start[h->pieces.at[i].key]++] = (uint32_t)i;
	}
	for (size_t i = 0; i < h->keys.n && r >= 0; i++) {
		const struct hf_key *key = &h->keys.at[i];
		if (key->npieces) {
			r = lower_key(h, key, list + start[i] - key->npieces);
			continue;
		}
		if (i >= h->nindexed)
			continue; /* in a file, but the index gives it to another */
		const char *file = h->names.at[h->key_file[i]];
		bool there = sf_path_check(file, strlen(file), NULL) >= 0 &&
		             dcp_listed(h->files, h->nfiles, file);
		r = sf_ckpt_builder_warn(h->b, NULL, there ? "missing-item" : "missing-file",
		                         "'%.*s': the index puts it into %.200s, which %s",
		                         (int)SF_MIN(key->len, 200u), key->name, file,
		                         there ? "does not have it" : "is not there");
	}
	return r;
}

static int load(struct hf *h, struct sf_ckpt **ret)
{
	const struct sf_objinfo *index = dcp_listed(h->files, h->nfiles, INDEX_NAME);
	SF_CLEANUP(free_json) struct sf_json *json = NULL;
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *text = NULL;
	uint64_t len;
	int r = 0;

	if (index) {
		r = h->store->ops->open(h->store, INDEX_NAME, NULL, &src, h->err);
		if (r >= 0)
			r = sf_source_read_all(src, INDEX_MAX, SF_FETCH_METADATA, &text, &len,
			                       h->err);
		if (r >= 0) {
			r = sf_json_parse((const char *)text, (size_t)len, &json, h->err);
			if (r < 0)
				sf_fail_ctx(h->err, r, "'%s'", INDEX_NAME);
		}
		if (r >= 0)
			r = take_index(h, json);
		h->mtime = index->version.mtime_ns;
	}
	if (r >= 0 && !h->nindexed)
		r = take_listing(h);
	for (uint32_t i = 0; i < h->names.n && r >= 0; i++) {
		const struct sf_objinfo *f = dcp_listed(h->files, h->nfiles, h->names.at[i]);
		if (f)
			h->mtime = SF_MAX(h->mtime, f->version.mtime_ns);
		r = take_file(h, i);
	}
	if (r >= 0)
		r = lower(h);
	if (r >= 0) {
		sf_ckpt_builder_facts(h->b,
		                      h->sharded ? "torch >= 2.7 (HuggingFace storage)" : NULL,
		                      NULL, dcp_step_of(h->store->source), 0, h->mtime);
		r = sf_ckpt_builder_finish(h->b, ret, h->err);
	}
	return r;
}

static int hf_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                   const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	struct hf h = { .store = store, .files = files, .nfiles = n, .err = err };
	int r;

	(void)opt;
	r = sf_ckpt_builder_new("safetensors", store->source, &h.b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(h.b, files, n, err);
	if (r >= 0)
		r = load(&h, ret);
	if (r < 0)
		sf_ckpt_builder_free(h.b);
	names_release(&h.names);
	pieces_release(&h.pieces);
	hf_keys_release(&h.keys);
	origins_release(&h.origins);
	sf_map_release(&h.key_map);
	sf_map_release(&h.file_map);
	free(h.key_file);
	sf_arena_release(&h.arena);
	return r;
}

const struct sf_format sf_format_dcp_hf = {
	.name = "safetensors",
	.about = "safetensors files: plain, with an index, or DCP's shards",
	.probe = hf_probe,
	.load = hf_load,
};
