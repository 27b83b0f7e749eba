/*
 * Megatron-Core's torch_dist: DCP shards, the common state in common.pt, metadata.json last. Objects are
 * sharded objects: their keys end in /shard_INDEX_COUNT, their archives hold a list of one.
 * Source: NVIDIA/Megatron-LM megatron/core/dist_checkpointing/{mapping,serialization}.py and
 * strategies/{torch,common}.py, core_v0.18.0; docs/formats/megatron.md. 0.19 reads common.pt too.
 */
#include "config.h"

#include <ctype.h>
#include <string.h>

#include "base/growing.h"
#include "base/map.h"
#include "save/save_dcp.h"
#include "save/save_item_bytes.h"
#include "save/save_priv.h"

#define COMMON "common"
static const char metadata_json[] =
	"{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": 1, "
	"\"common_backend\": \"torch\", \"common_backend_version\": 1}";

/* Does a key say which shard of an object it is? "/shard_0_1", "/shard_0.1_2.4" */
static bool names_shard(const char *key, size_t len)
{
	const char *slash = memrchr(key, '/', len), *end = key + len;
	unsigned parts = 0;

	if (!slash || (size_t)(end - slash) < 10 || memcmp(slash, "/shard_", 7) != 0)
		return false;
	for (const char *p = slash + 7; p < end; p++) {
		if (*p == '_' && isdigit((unsigned char)p[-1]) && p + 1 < end)
			parts++;
		else if (!isdigit((unsigned char)*p) && *p != '.')
			return false;
	}
	return parts == 1;
}

/* Every rank gives it alike; one file has it. */
static int common_state(struct shardfuse_save *s, const struct shardfuse_save_object *o,
                        struct sf_error *err)
{
	struct sf_buf archive = { 0 };
	int r;

	if (s->alike)
		return sf_fail(err, -EEXIST, "object '" COMMON "' was added before");
	r = sf_save_archive(o, false, &archive, err);
	if (r >= 0) {
		s->alike = sf_fnv1a(SF_FNV1A, archive.at, archive.len);
		if (s->comm.rank == 0)
			r = sf_save_items_file(&s->items, "common.pt", archive.at, archive.len,
			                       err);
	} else {
		sf_fail_ctx(err, r, "object '" COMMON "'");
	}
	sf_buf_release(&archive);
	return r;
}

static int object(struct shardfuse_save *s, const struct shardfuse_save_object *given,
                  struct sf_error *err)
{
	struct shardfuse_save_object o = *given;
	struct sf_buf key = { .limit = 1 << 20 };
	const char *name = o.key ? o.key : o.npath == 1 ? o.path[0].name : NULL;
	size_t len = o.key && o.key_len ? o.key_len : name ? strlen(name) : 0;
	int r;

	if (!name)
		return sf_fail(err, -EINVAL,
		               "an object of Megatron's has a key and no path: '" COMMON
		               "' for the common "
		               "state, else KEY/shard_INDEX_COUNT");
	if (len == strlen(COMMON) && memcmp(name, COMMON, len) == 0)
		return common_state(s, &o, err);
	sf_buf_add(&key, name, len);
	if (!names_shard(name, len))
		sf_buf_str(&key, "/shard_0_1");
	r = sf_buf_check(&key);
	if (r < 0) {
		sf_fail(err, r, "the key of an object has %zu bytes", len);
	} else {
		o.key = sf_buf_cstr(&key);
		o.key_len = key.len;
		o.path = NULL;
		o.npath = 0;
		s->items.in_lists = true;
		r = sf_save_items_object(&s->items, &o, err);
	}
	sf_buf_release(&key);
	return r;
}

static int put_empty_common(struct shardfuse_save *s, struct sf_save_target *t,
                            struct sf_error *err)
{
	const struct sf_pv dict = { .kind = SF_PV_DICT };
	struct sf_buf archive = { 0 };
	int r = sf_save_object_item(&dict, &archive, err);

	if (r >= 0)
		r = sf_save_target_put(t, "common.pt", archive.at, archive.len, !s->opt.no_fsync,
		                       err);
	sf_buf_release(&archive);
	return r;
}

static int finish(struct shardfuse_save *s, struct sf_save_target *t,
                  const struct sf_global_plan *g, struct sf_error *err)
{
	int r = s->alike ? 0 : put_empty_common(s, t, err);

	if (r >= 0)
		r = sf_save_dcp_metadata(s, t, "", g, err);
	return r < 0 ? r
	             : sf_save_target_put(t, "metadata.json", metadata_json, strlen(metadata_json),
	                                  !s->opt.no_fsync, err);
}

const struct sf_save_format sf_save_megatron = { .name = "megatron",
	                                         .shards = "",
	                                         .last = "metadata.json",
	                                         .object = object,
	                                         .finish = finish };
