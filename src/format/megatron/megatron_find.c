#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_meta.h"
#include "format/megatron/megatron_ranks.h"
#include "store/source.h"

#define JSON_MAX (UINT64_C(64) << 10) /* bytes of a metadata.json: Megatron's has 100 */

/* Where a checkpoint may stand in what was given: in it; NeMo 2's and NeMo 1's directories. */
static const char *const dirs[] = { "", "weights/", "model_weights/" };

/* It will not be read the next time, either. */
static bool is_of_file(int r)
{
	return r == -ENOENT || r == -EBADMSG || r == -ENOTSUP || r == -E2BIG;
}

/* Another's file of that name has no such member. */
static int take_kind(const uint8_t *text, size_t len, const char *name, enum megatron_kind *ret,
                     struct sf_error *err)
{
	static const char member[] = "sharded_backend";
	struct sf_json *json = NULL;
	const char *backend;
	int r;

	if (!memmem(text, len, member, strlen(member)))
		return 0;
	r = sf_json_parse((const char *)text, len, &json, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", name);
	if (sf_json_get_str(sf_json_root(json), member, &backend, NULL) >= 0)
		*ret = strcmp(backend, "zarr") == 0 ? MEGATRON_ZARR : MEGATRON_DIST;
	sf_json_free(json);
	return 0;
}

/* What metadata.json says: MEGATRON_NONE when it is another's. */
static int kind_of(struct sf_store *store, const struct sf_objinfo *file, enum megatron_kind *ret,
                   struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *text = NULL;
	struct sf_error why = SF_ERROR_INIT;
	uint64_t len;
	int r;

	*ret = MEGATRON_NONE;
	if (file->size > JSON_MAX)
		return 0;
	r = store->ops->open(store, file->name, file, &src, &why);
	if (r >= 0)
		r = sf_source_read_all(src, JSON_MAX, SF_FETCH_METADATA, &text, &len, &why);
	if (r < 0)
		return is_of_file(r) ? 0 : sf_fail(err, r, "%s", why.msg);
	return take_kind(text, (size_t)len, file->name, ret, err);
}

static const struct sf_objinfo *file_in(const struct sf_objinfo *files, size_t n, const char *dir,
                                        const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s%s", dir, name);
	return sf_format_listed(files, n, path);
}

int megatron_find(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                  struct megatron_found *ret, struct sf_error *err)
{
	int r;

	*ret = (struct megatron_found){ .kind = MEGATRON_NONE, .dir = "" };
	for (size_t i = 0; i < SF_ARRAY_LEN(dirs) && !ret->kind; i++) {
		const struct sf_objinfo *json = file_in(files, n, dirs[i], "metadata.json");
		ret->dir = dirs[i];
		ret->file = json;
		if (json) {
			r = kind_of(store, json, &ret->kind, err);
			if (r < 0)
				return r;
			continue;
		}
		/* others that write .metadata have no such file beside it */
		ret->file = file_in(files, n, dirs[i], "common.pt");
		if (ret->file && file_in(files, n, dirs[i], ".metadata"))
			ret->kind = MEGATRON_OPEN;
	}
	for (size_t i = 0; i < n && !ret->kind; i++)
		if (megatron_is_rank_file(files[i].name, ""))
			*ret = (struct megatron_found){ MEGATRON_LEGACY, "", &files[i] };
	for (size_t i = 0; i < n && !ret->kind; i++)
		if (sf_has_suffix(files[i].name, "/.zarray"))
			*ret = (struct megatron_found){ MEGATRON_OPEN, "", &files[i] };
	return 0;
}

int megatron_check_committed(const struct dcp_meta *m, const struct sf_store *store,
                             struct sf_error *err)
{
	if (dcp_meta_str_find(m, MEGATRON_COMMON_KEY, strlen(MEGATRON_COMMON_KEY)) == DCP_NONE)
		return 0;
	return sf_fail(err, -ENOENT,
	               "'%s': not committed: it has Megatron's common state, but no metadata.json, "
	               "which Megatron writes last; --source-format dcp shows what is there",
	               store->source);
}
