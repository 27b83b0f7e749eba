#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/torch/torch_priv.h"
#include "store/source.h"

#define INDEX_MAX (UINT64_C(1) << 30) /* bytes: 100 a key */

struct reading {
	struct torch_names *names;
	struct sf_map map;
	struct {
		uint32_t *at;
		size_t cap;
	} keys; /* of each */
	struct sf_arena *arena;
};

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const char *name = ((const struct reading *)arg)->names->at[value];

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

static int count_key(struct reading *d, const char *file)
{
	const size_t len = strlen(file);
	uint32_t at = sf_map_get(&d->map, file, len, same_name, d);
	int failed = 0;

	if (at == SF_MAP_NONE) {
		const char *name = sf_arena_strdup(d->arena, file, len);
		if (!name || torch_names_push(d->names, name) < 0)
			return -ENOMEM;
		at = (uint32_t)d->names->n - 1;
		if (sf_vec_grow((void **)&d->keys.at, &d->keys.cap, at + 1, sizeof(uint32_t)) < 0)
			return -ENOMEM;
		d->keys.at[at] = 0;
		sf_map_add(&d->map, name, len, at, same_name, d, &failed);
	}
	d->keys.at[at]++;
	return failed;
}

static int take(struct reading *d, const struct sf_json *json, struct sf_error *err)
{
	const struct cJSON *map, *item;
	int r = sf_json_get_obj(sf_json_root(json), "weight_map", &map, err);

	if (r < 0)
		return r;
	for (item = sf_json_next(map, NULL); item && r >= 0; item = sf_json_next(map, item)) {
		const char *file = sf_json_str(item), *key = sf_json_name(item);
		if (!file || sf_path_check(file, strlen(file), NULL) < 0)
			return sf_fail(err, -EBADMSG,
			               "weight_map of '%.200s' is no name of a file below it",
			               key ? key : "");
		r = count_key(d, file);
	}
	return r < 0 ? sf_fail(err, r, "no memory for %zu files", d->names->n) : 0;
}

int torch_parse_index(const char *text, size_t len, struct sf_arena *arena, struct torch_names *ret,
                      uint32_t **ret_keys, struct sf_error *err)
{
	struct reading d = { .names = ret, .arena = arena };
	struct sf_json *json = NULL;
	int r = sf_json_parse(text, len, &json, err);

	if (r >= 0)
		r = take(&d, json, err);
	sf_json_free(json);
	sf_map_release(&d.map);
	if (r >= 0)
		*ret_keys = SF_STEAL(d.keys.at);
	free(d.keys.at);
	return r;
}

int torch_read_index(struct sf_store *store, const struct sf_objinfo *index, struct sf_arena *arena,
                     struct torch_names *ret, uint32_t **ret_keys, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *text = NULL;
	uint64_t len;
	int r = store->ops->open(store, index->name, index, &src, err);

	if (r >= 0)
		r = sf_source_read_all(src, INDEX_MAX, SF_FETCH_METADATA, &text, &len, err);
	if (r < 0)
		return r;
	r = torch_parse_index((const char *)text, (size_t)len, arena, ret, ret_keys, err);
	return r < 0 ? sf_fail_ctx(err, r, "'%s'", index->name) : 0;
}
