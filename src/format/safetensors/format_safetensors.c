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
#include "format/format_unread.h"
#include "format/safetensors/format_safetensors.h"
#include "format/safetensors/safetensors_head.h"
#include "store/fetch_many.h"
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
#define FILES_AT_ONCE 256u
#define HF_NAME_MAX (SF_FORMAT_NAME_MAX + 4096u)

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
	bool unknown; /* some file does not say where its part belongs: left out */
};
SF_VEC(pieces, struct piece);
SF_VEC(hf_keys, struct hf_key);
SF_VEC(names, const char *);
SF_VEC(origins, uint64_t);

struct hf {
	const struct sf_format_dir *src;
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct sf_arena arena; /* headers, names */
	struct names names;    /* files to read, relative to src->dir */
	struct pieces pieces;
	struct hf_keys keys;
	struct origins origins;
	struct sf_map key_map, file_map;
	struct sf_json *index; /* names of keys and files are its; NULL without */
	uint32_t *key_file;    /* by key of the index: names[] */
	uint32_t nindexed;     /* keys that the index named; 0 without */
	bool sharded;          /* some header has sharding info */
	uint32_t unread;       /* files whose header cannot be read */
	uint32_t left_out;     /* keys that are unknown */
	int64_t mtime;
	struct sf_buf name; /* of the file or key at hand, with what is put in front */
};

/* A name relative to the directory, NULL when @name lies elsewhere. */
static const char *relative(const char *dir, const char *name)
{
	size_t n = strlen(dir);

	return strncmp(name, dir, n) == 0 ? name + n : NULL;
}

/* A name below "sharded/" when @below. */
static bool is_safetensors(const char *name, bool below)
{
	name = name && below ? relative("sharded/", name) : name;
	size_t n = name ? strlen(name) : 0;

	return n > 12 && strcmp(name + n - 12, ".safetensors") == 0 && !strchr(name, '/');
}

static size_t count(const struct sf_format_dir *src, bool below)
{
	size_t found = 0;

	for (size_t i = 0; i < src->nfiles; i++)
		found += is_safetensors(relative(src->dir, src->files[i].name), below);
	return found;
}

bool safetensors_is_dir(const struct sf_objinfo *files, size_t n, const char *dir)
{
	const struct sf_format_dir src = { .files = files, .nfiles = n, .dir = dir };

	return count(&src, false) > 0;
}

static int hf_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                    struct sf_error *err)
{
	const struct sf_format_dir src = { .files = files, .nfiles = n, .dir = "" };
	(void)store;
	(void)err;

	return sf_format_listed(files, n, INDEX_NAME) || count(&src, false) ? 45
	       : count(&src, true)                                          ? 35
	                                                                    : 0;
}

/* The listed file of this name in the directory, or NULL. */
static const struct sf_objinfo *listed(struct hf *h, const char *name)
{
	sf_buf_reset(&h->name);
	sf_buf_str(&h->name, h->src->dir);
	sf_buf_str(&h->name, name);
	name = sf_buf_cstr(&h->name);
	return sf_buf_check(&h->name) < 0 ? NULL
	                                  : sf_format_listed(h->src->files, h->src->nfiles, name);
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
		if (len > SF_FORMAT_NAME_MAX || hf_keys_push(&h->keys, k) < 0)
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
			return sf_fail(h->err, -EBADMSG,
			               "'%s': weight_map of '%.200s' is not a string", INDEX_NAME,
			               name ? name : "");
		r = key_of(h, name, strlen(name), &key);
		if (r >= 0 && key == h->nindexed)
			r = file_of(h, file, &h->key_file[h->nindexed++]);
	}
	return r;
}

/* Which files make the checkpoint when no index says so? */
static int take_listing(struct hf *h)
{
	const struct sf_format_dir *src = h->src;
	bool below = count(src, false) == 0;
	const char *whole = listed(h, "model.safetensors")           ? "model.safetensors"
	                    : listed(h, "adapter_model.safetensors") ? "adapter_model.safetensors"
	                                                             : NULL;
	bool numbered = false;
	uint32_t at;
	int r = 0;

	/* One whole file beats others beside it (another framework's or precision's copy), and
	 * model-…-of-… beats consolidated.* */
	if (whole)
		return file_of(h, whole, &at);
	for (size_t i = 0; i < src->nfiles; i++)
		numbered = numbered ||
		           (is_safetensors(relative(src->dir, src->files[i].name), below) &&
		            strstr(src->files[i].name, "-of-"));
	for (size_t i = 0; i < src->nfiles && r >= 0; i++) {
		const char *name = relative(src->dir, src->files[i].name);
		if (is_safetensors(name, below) && (!numbered || strstr(name, "-of-")))
			r = file_of(h, name, &at);
	}
	return r;
}

/* "shard-00001-model-00002-of-00003.safetensors": DCP's writer gives such names to parts alone. */
static bool is_shard(const char *name)
{
	static const char *const word[] = { "shard-", "-model-", "-of-" };
	const char *slash = strrchr(name, '/');

	name = slash ? slash + 1 : name;
	for (size_t i = 0; i < SF_ARRAY_LEN(word); i++) {
		if (strncmp(name, word[i], strlen(word[i])) != 0)
			return false;
		name += strlen(word[i]);
		size_t digits = strspn(name, "0123456789");
		if (digits < 5)
			return false;
		name += digits;
	}
	return strcmp(name, ".safetensors") == 0;
}

/* Will it be the same the next time? */
static bool is_malformed(int code)
{
	return code == -EBADMSG || code == -ENOTSUP || code == -E2BIG;
}

/*
 * A file whose header is no good costs its tensors. Of a sharded save every file may have the end
 * of any tensor, and only the furthest end says how large it is: without one of them nothing is
 * known.
 */
static int pass_over(struct hf *h, const char *name, int code)
{
	struct sf_error why = *h->err;

	if (!is_malformed(code))
		return code;
	if (is_shard(name))
		return sf_fail_ctx(h->err, code, "it may hold a part of every tensor");
	h->unread++;
	return sf_ckpt_builder_warn(h->b, NULL, "unreadable-file", "its tensors are left out: %s",
	                            why.msg);
}

/* Where this file's part of the tensor belongs is not known, so neither is how large the whole is. */
static int leave_out(struct hf *h, const char *file, uint32_t key)
{
	struct sf_error why = *h->err;
	bool again = h->keys.at[key].unknown;

	h->keys.at[key].unknown = true;
	h->left_out += !again;
	return again ? 0
	             : sf_ckpt_builder_warn(h->b, NULL, "malformed-tensor", "left out: '%s': %s",
	                                    file, why.msg);
}

/* @info NULL: it cannot be read, and the tensors' parts belong nobody knows where; a warning says
 * so. */
static int take_tensors(struct hf *h, uint32_t file, uint32_t place,
                        const struct sf_st_header *head, const struct safetensors_sharding *info)
{
	int r = 0;

	for (size_t i = 0; i < head->n && r >= 0; i++) {
		struct piece p = { .t = &head->at[i],
			           .origin0 = h->origins.n,
			           .data_off = head->data_off,
			           .file = place };
		r = key_of(h, head->at[i].name, head->at[i].name_len, &p.key);
		if (r < 0)
			break;
		if (h->nindexed && (p.key >= h->nindexed || h->key_file[p.key] != file))
			continue; /* the index gives this name to another file, or to none */
		if (!info) {
			h->left_out += !h->keys.at[p.key].unknown;
			h->keys.at[p.key].unknown = true;
			continue;
		}
		if (origins_reserve(&h->origins, h->origins.n + p.t->ndim) < 0)
			return no_memory(h);
		r = safetensors_origin(info, p.t, h->origins.at + h->origins.n, h->err);
		if (is_malformed(r)) {
			r = leave_out(h, h->names.at[file], p.key);
			continue;
		}
		if (r >= 0 && pieces_push(&h->pieces, p) < 0)
			return no_memory(h);
		h->origins.n += p.t->ndim;
		h->keys.at[p.key].npieces++;
	}
	return r;
}

/* @got: the file, or why it could not be had; NULL where it is not listed. */
static int take_file(struct hf *h, uint32_t file, const struct sf_fetch_one *got)
{
	SF_CLEANUP(safetensors_sharding_release) struct safetensors_sharding info = { 0 };
	const struct sf_objinfo *f = listed(h, h->names.at[file]);
	struct sf_st_header head;
	uint32_t place;
	int r;

	if (!f || !got)
		return 0; /* only an index can name it: warned about there */
	h->mtime = SF_MAX(h->mtime, f->version.mtime_ns);
	r = sf_ckpt_builder_place(h->b, f->name, strlen(f->name), SF_ITEM_RAW, SF_CODEC_NONE,
	                          &place, h->err);
	if (r < 0)
		return r;
	r = got->r < 0 ? sf_fail(h->err, got->r, "%s", got->err.msg)
	               : safetensors_read_header(got->src, f->name, &h->arena, &head, h->err);
	if (r < 0)
		return pass_over(h, f->name, r);
	if (head.sharding_info) {
		h->sharded = true;
		r = safetensors_read_sharding(head.sharding_info, &info, h->err);
		if (is_malformed(r)) {
			struct sf_error why = *h->err;
			r = sf_ckpt_builder_warn(h->b, NULL, "unreadable-file",
			                         "its tensors are left out: '%s': %s", f->name,
			                         why.msg);
			return r < 0 ? r : take_tensors(h, file, place, &head, NULL);
		}
	}
	if (r >= 0)
		r = take_tensors(h, file, place, &head, &info);
	return r < 0 ? sf_fail_ctx(h->err, r, "'%s'", f->name) : 0;
}

/* The files' headers are asked for side by side. */
static int take_files(struct hf *h, uint32_t first, uint32_t end)
{
	SF_FREE struct sf_fetch_one *f = sf_alloc_array(FILES_AT_ONCE, sizeof(*f));
	const struct sf_objinfo *info;
	size_t n = 0, k = 0;
	int r = 0;

	if (!f)
		return no_memory(h);
	for (uint32_t i = first; i < end; i++)
		if ((info = listed(h, h->names.at[i])))
			f[n++] = (struct sf_fetch_one){ .name = info->name,
				                        .want = info,
				                        .len = SAFETENSORS_BEGIN };
	sf_fetch_many(h->src->store, f, n, SF_FETCH_HEADER);
	for (uint32_t i = first; i < end && r >= 0; i++)
		r = take_file(h, i, listed(h, h->names.at[i]) ? &f[k++] : NULL);
	sf_fetch_many_release(f, n);
	return r;
}

/* The key as it is shown: in its container. */
static int set_name(struct hf *h, const struct hf_key *key)
{
	sf_buf_reset(&h->name);
	if (h->src->prefix) {
		sf_buf_str(&h->name, h->src->prefix);
		sf_buf_byte(&h->name, '.');
	}
	sf_buf_add(&h->name, key->name, key->len);
	sf_buf_cstr(&h->name);
	return sf_buf_check(&h->name) < 0 ? no_memory(h) : 0;
}

static int set_path(struct hf *h, const struct hf_key *key)
{
	const struct sf_path_elem path[2] = {
		{ h->src->prefix, h->src->prefix ? (uint32_t)strlen(h->src->prefix) : 0, 0 },
		{ key->name, key->len, 0 }
	};

	return !h->src->prefix ? 0
	                       : sf_ckpt_builder_path(h->b, (const char *)h->name.at, h->name.len,
	                                              path, 2, h->err);
}

/* Global size: as far as any part reaches. Trailing empty parts are not visible: the format does
 * not say more. -EBADMSG: the parts are not those of one tensor. */
static int global_shape(struct hf *h, const struct hf_key *key, const uint32_t *list,
                        uint64_t shape[SF_DIMS_MAX])
{
	const struct piece *first = &h->pieces.at[list[0]];
	uint64_t end;

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
	return 0;
}

static int lower_key(struct hf *h, const struct hf_key *key, const uint32_t *list)
{
	const struct piece *first = &h->pieces.at[list[0]];
	uint64_t shape[SF_DIMS_MAX] = { 0 };
	uint32_t tensor, chunks = 0;
	bool whole = false;
	int r = global_shape(h, key, list, shape);

	if (r < 0) { /* it is left out, the others are not */
		struct sf_error why = *h->err;
		*h->err = (struct sf_error)SF_ERROR_INIT;
		return sf_ckpt_builder_warn(h->b, NULL, "malformed-tensor", "left out: %s",
		                            why.msg);
	}
	r = set_name(h, key);
	if (r >= 0)
		r = sf_ckpt_builder_tensor(h->b, (const char *)h->name.at, h->name.len,
		                           (enum sf_dtype)first->t->dtype, shape, first->t->ndim,
		                           &tensor, h->err);
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
	return r < 0 ? r : set_path(h, key);
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
		if (key->unknown)
			continue;
		if (key->npieces) {
			r = lower_key(h, key, list + start[i] - key->npieces);
			continue;
		}
		if (i >= h->nindexed)
			continue; /* in a file, but the index gives it to another */
		const char *file = h->names.at[h->key_file[i]];
		bool there = sf_path_check(file, strlen(file), NULL) >= 0 && listed(h, file);
		r = sf_ckpt_builder_warn(h->b, NULL, there ? "missing-item" : "missing-file",
		                         "'%.*s': the index puts it into %.200s, which %s",
		                         (int)SF_MIN(key->len, 200u), key->name, file,
		                         there ? "does not have it" : "is not there");
	}
	return r;
}

static int read_index(struct hf *h, const struct sf_objinfo *index)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *text = NULL;
	uint64_t len;
	int r = h->src->store->ops->open(h->src->store, index->name, index, &src, h->err);

	h->mtime = index->version.mtime_ns;
	if (r >= 0)
		r = sf_source_read_all(src, INDEX_MAX, SF_FETCH_METADATA, &text, &len, h->err);
	if (r < 0)
		return r;
	r = sf_json_parse((const char *)text, (size_t)len, &h->index, h->err);
	if (r < 0)
		return sf_fail_ctx(h->err, r, "'%s'", index->name);
	return take_index(h, h->index);
}

static int load(struct hf *h)
{
	const size_t most = SF_MIN(FILES_AT_ONCE, SF_MAX(h->src->store->io->max_open, 1u));
	const struct sf_objinfo *index = listed(h, INDEX_NAME);
	int r = index ? read_index(h, index) : 0;

	if (r >= 0 && !h->nindexed)
		r = take_listing(h);
	for (size_t i = 0; i < h->names.n && r >= 0; i += most)
		r = take_files(h, (uint32_t)i, (uint32_t)SF_MIN(h->names.n, i + most));
	if (r >= 0 && h->unread && h->sharded)
		return sf_fail(h->err, -EBADMSG,
		               "%u files of a sharded save cannot be read, and they may hold a "
		               "part of every tensor",
		               h->unread);
	if (r >= 0 && h->unread && h->unread == h->names.n)
		return sf_fail_ctx(h->err, -EBADMSG, "no safetensors file can be read");
	if (r >= 0 && h->left_out && h->left_out == h->keys.n)
		return sf_fail_ctx(h->err, -EBADMSG, "none of the %zu tensors has a known place",
		                   h->keys.n);
	return r < 0 ? r : lower(h);
}

int safetensors_load_dir(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                         struct safetensors_facts *ret, struct sf_error *err)
{
	/* what becomes a warning leaves its message here: the caller's is for a failure */
	struct sf_error own = SF_ERROR_INIT;
	struct hf h = { .src = src, .b = b, .err = &own, .name.limit = HF_NAME_MAX };
	int r = load(&h);

	*ret = (struct safetensors_facts){ .sharded = h.sharded, .mtime_ns = h.mtime };
	names_release(&h.names);
	pieces_release(&h.pieces);
	hf_keys_release(&h.keys);
	origins_release(&h.origins);
	sf_map_release(&h.key_map);
	sf_map_release(&h.file_map);
	free(h.key_file);
	sf_json_free(h.index);
	sf_buf_release(&h.name);
	sf_arena_release(&h.arena);
	return r < 0 ? sf_fail(err, r, "%s", own.msg) : r;
}

static int hf_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                   const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	const struct sf_format_dir src = { .store = store, .files = files, .nfiles = n, .dir = "" };
	struct sf_ckpt_builder *b = NULL;
	struct safetensors_facts facts;
	int r;

	(void)opt;
	r = sf_ckpt_builder_new("safetensors", store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(b, files, n, err);
	if (r >= 0)
		r = safetensors_load_dir(&src, b, &facts, err);
	if (r >= 0)
		r = sf_unread_warn(b, files, n);
	if (r >= 0) {
		sf_ckpt_builder_facts(b, safetensors_writer(&facts), NULL,
		                      sf_format_step(store->source), 0, facts.mtime_ns);
		r = sf_ckpt_builder_finish(b, ret, err);
	}
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

const char *safetensors_writer(const struct safetensors_facts *f)
{
	return f->sharded ? "torch >= 2.7 (HuggingFace storage)" : NULL;
}

/* DCP's Hugging Face writer makes them too. */
static const char *const also[] = { "dcp", NULL };

const struct sf_format sf_format_safetensors = {
	.name = "safetensors",
	.also = also,
	.marker = "*.safetensors",
	.about = "safetensors files: plain, with an index, or DCP's shards",
	.probe = hf_probe,
	.load = hf_load,
};
