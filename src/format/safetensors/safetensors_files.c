#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "format/safetensors/safetensors_priv.h"
#include "store/source.h"

#define INDEX_MAX (UINT64_C(1) << 30) /* bytes: 100 a key */

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

size_t safetensors_count(const struct sf_format_dir *src, bool below)
{
	size_t found = 0;

	for (size_t i = 0; i < src->nfiles; i++)
		found += is_safetensors(relative(src->dir, src->files[i].name), below);
	return found;
}

const struct sf_objinfo *safetensors_listed(const struct safetensors_lowering *h, const char *name)
{
	return sf_format_file(h->src, name, strlen(name));
}

static int same_key(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct safetensors_key *k =
		&((const struct safetensors_lowering *)arg)->keys.at[value];

	return k->len == len && memcmp(k->name, key, len) == 0;
}
static int same_file(void *arg, uint32_t value, const char *key, size_t len)
{
	const char *name = ((const struct safetensors_lowering *)arg)->names.at[value];

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

int safetensors_no_memory(struct safetensors_lowering *h)
{
	return sf_fail(h->err, -ENOMEM, "safetensors: no memory for %zu keys of %zu files",
	               h->keys.n, h->names.n);
}

int safetensors_key_of(struct safetensors_lowering *h, const char *name, size_t len, uint32_t *ret)
{
	uint32_t at = sf_map_get(&h->key_map, name, len, same_key, h);
	int failed = 0;

	if (at == SF_MAP_NONE) {
		struct safetensors_key k = { .name = name, .len = (uint32_t)len };
		if (len > SF_FORMAT_NAME_MAX || safetensors_keys_push(&h->keys, k) < 0)
			return safetensors_no_memory(h);
		at = (uint32_t)h->keys.n - 1;
		sf_map_add(&h->key_map, name, len, at, same_key, h, &failed);
	}
	*ret = at;
	return failed ? safetensors_no_memory(h) : 0;
}

static int file_of(struct safetensors_lowering *h, const char *name, uint32_t *ret)
{
	size_t len = strlen(name);
	uint32_t at = sf_map_get(&h->file_map, name, len, same_file, h);
	int failed = 0;

	if (at == SF_MAP_NONE) {
		if (safetensors_names_push(&h->names, name) < 0)
			return safetensors_no_memory(h);
		at = (uint32_t)h->names.n - 1;
		sf_map_add(&h->file_map, name, len, at, same_file, h, &failed);
	}
	*ret = at;
	return failed ? safetensors_no_memory(h) : 0;
}

static int take_index(struct safetensors_lowering *h, const struct sf_json *index)
{
	const struct cJSON *map, *item;
	size_t n = 0;
	int r = sf_json_get_obj(sf_json_root(index), "weight_map", &map, h->err);

	if (r < 0)
		return sf_fail_ctx(h->err, r, "'%s'", SAFETENSORS_INDEX);
	for (item = sf_json_next(map, NULL); item; item = sf_json_next(map, item))
		n++;
	h->key_file = sf_alloc_array(n, sizeof(*h->key_file));
	if (!h->key_file)
		return safetensors_no_memory(h);
	for (item = sf_json_next(map, NULL); item && r >= 0; item = sf_json_next(map, item)) {
		const char *file = sf_json_str(item), *name = sf_json_name(item);
		uint32_t key;
		if (!file || !name)
			return sf_fail(h->err, -EBADMSG,
			               "'%s': weight_map of '%.200s' is not a string",
			               SAFETENSORS_INDEX, name ? name : "");
		r = safetensors_key_of(h, name, strlen(name), &key);
		if (r >= 0 && key == h->nindexed)
			r = file_of(h, file, &h->key_file[h->nindexed++]);
	}
	return r;
}

int safetensors_take_listing(struct safetensors_lowering *h)
{
	const struct sf_format_dir *src = h->src;
	bool below = safetensors_count(src, false) == 0;
	const char *whole = safetensors_listed(h, "model.safetensors") ? "model.safetensors"
	                    : safetensors_listed(h, "adapter_model.safetensors")
	                            ? "adapter_model.safetensors"
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

int safetensors_read_index(struct safetensors_lowering *h, const struct sf_objinfo *index)
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
