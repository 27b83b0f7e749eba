#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "format/safetensors/safetensors_head.h"
#include "store/source.h"

static int no_memory(struct sf_error *err)
{
	return sf_fail(err, -ENOMEM, "safetensors: no memory for a header");
}

int safetensors_read_header(struct sf_source *src, const char *name, struct sf_arena *arena,
                            struct sf_st_header *ret, struct sf_error *err)
{
	SF_FREE uint8_t *at = NULL;
	uint64_t len, first;
	int r;

	first = SF_MIN(src->size, (uint64_t)SAFETENSORS_BEGIN);
	if (first < 8)
		return sf_fail(err, -EBADMSG, "'%s': %llu bytes, a safetensors file has at least 8",
		               name, (unsigned long long)src->size);
	at = malloc(SAFETENSORS_BEGIN);
	if (!at)
		return no_memory(err);
	r = sf_source_read(src, 0, at, first, SF_FETCH_HEADER, err);
	if (r < 0)
		return r;
	len = sf_le64(at);
	if (len > SF_ST_HEADER_MAX || len > src->size - 8)
		return sf_fail(
			err, -EBADMSG,
			"'%s': header of %llu bytes, the file has %llu, the format's limit is %u",
			name, (unsigned long long)len, (unsigned long long)src->size,
			SF_ST_HEADER_MAX);
	if (len + 8 > first) {
		uint8_t *more = realloc(at, (size_t)len + 8);
		if (!more)
			return no_memory(err);
		at = more;
		r = sf_source_read(src, first, at + first, len + 8 - first, SF_FETCH_HEADER, err);
		if (r < 0)
			return r;
	}
	r = sf_st_parse(at + 8, (size_t)len, arena, ret, err);
	return r < 0 ? sf_fail_ctx(err, r, "'%s'", name) : 0;
}

void safetensors_sharding_release(struct safetensors_sharding *x)
{
	sf_json_free(x->json);
	free(x->at);
	sf_map_release(&x->map);
}

static int same_fqn(void *arg, uint32_t value, const char *key, size_t len)
{
	const char *name = sf_json_name(((const struct safetensors_sharding *)arg)->at[value]);

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

int safetensors_read_sharding(const char *text, struct safetensors_sharding *x,
                              struct sf_error *err)
{
	const struct cJSON *root, *item;
	size_t n = 0;
	int failed = 0, r = sf_json_parse(text, strlen(text), &x->json, err);

	if (r < 0)
		return sf_fail_ctx(err, r, "DCP_SHARDING_INFO");
	root = sf_json_root(x->json);
	for (item = sf_json_next(root, NULL); item; item = sf_json_next(root, item))
		n++;
	x->at = sf_alloc_array(n, sizeof(*x->at));
	if (!x->at || sf_map_reserve(&x->map, n) < 0)
		return no_memory(err);
	n = 0;
	for (item = sf_json_next(root, NULL); item && !failed; item = sf_json_next(root, item)) {
		const char *name = sf_json_name(item);
		uint32_t there;
		if (!name)
			return sf_fail(err, -EBADMSG, "DCP_SHARDING_INFO is not an object");
		x->at[n] = item;
		there = sf_map_add(&x->map, name, strlen(name), (uint32_t)n, same_fqn, x, &failed);
		if (there == SF_MAP_NONE)
			n++;
		else
			x->at[there] = item; /* the last of equal names */
	}
	return failed ? no_memory(err) : 0;
}

int safetensors_origin(const struct safetensors_sharding *x, const struct sf_st_tensor *t,
                       uint64_t *ret, struct sf_error *err)
{
	uint32_t at;
	int r;

	for (unsigned k = 0; k < t->ndim; k++)
		ret[k] = 0;
	if (!x->json || !t->ndim)
		return 0;
	at = sf_map_get(&x->map, t->name, t->name_len, same_fqn, (void *)x);
	if (at == SF_MAP_NONE)
		return 0; /* one full chunk */
	r = sf_json_get_u64s(x->at[at], "saved_offsets", ret, t->ndim, err);
	if (r >= 0 && r != t->ndim)
		r = sf_fail(err, -EBADMSG, "%d saved_offsets for %u dimensions", r, t->ndim);
	return r < 0 ? sf_fail_ctx(err, r, "DCP_SHARDING_INFO of '%.200s'", t->name) : 0;
}
