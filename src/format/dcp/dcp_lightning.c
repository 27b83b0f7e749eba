#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_lightning.h"
#include "format/format_dir.h"
#include "format/torch_file.h"

#define META_NAME "meta.pt"
#define META_MAX (UINT64_C(256) << 20) /* bytes of its pickle, or of the values in it */
#define MEMBERS_MAX 4096               /* Lightning has 8 and what callbacks add */

/* "meta." and the member's name. */
static int set_name(struct sf_buf *name, const struct sf_pv *member)
{
	sf_buf_reset(name);
	sf_buf_str(name, "meta.");
	sf_buf_add(name, member->str.at, member->str.len);
	sf_buf_cstr(name);
	return sf_buf_check(name);
}

/* Names for all its members, and none that a key of the checkpoint has. */
static bool usable(const struct sf_ckpt_builder *b, const struct sf_pv *dict, struct sf_buf *name)
{
	bool is_tensor;

	if (dict->kind != SF_PV_DICT || dict->seq.n == 0 || dict->seq.n / 2 > MEMBERS_MAX)
		return false;
	for (size_t i = 0; i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *k = dict->seq.at[i];
		if (k->kind != SF_PV_STR || sf_surrogates_any(k->str.at, k->str.len) ||
		    set_name(name, k) < 0 ||
		    sf_ckpt_builder_find(b, (const char *)name->at, name->len, &is_tensor) !=
		            SF_NONE)
			return false;
	}
	return true;
}

static int add_members(struct sf_ckpt_builder *b, const struct sf_objinfo *file,
                       const struct sf_pv *dict, struct sf_buf *name, struct sf_error *err)
{
	uint32_t place, object;
	int r = sf_ckpt_builder_place(b, META_NAME, strlen(META_NAME), SF_ITEM_TORCH, SF_CODEC_NONE,
	                              &place, err);

	for (size_t i = 0; i + 1 < dict->seq.n && r >= 0; i += 2) {
		const struct sf_pv *k = dict->seq.at[i];
		const struct sf_path_elem path[2] = { { "meta", 4, 0 },
			                              { k->str.at, (uint32_t)k->str.len, 0 } };
		r = set_name(name, k);
		if (r >= 0)
			r = sf_ckpt_builder_object(b, (const char *)name->at, name->len, &object,
			                           err);
		if (r < 0)
			break;
		sf_ckpt_builder_set_object(b, object, place, 0, file->size);
		r = sf_ckpt_builder_set_member(b, object, k->str.at, k->str.len);
		if (r >= 0)
			r = sf_ckpt_builder_path(b, (const char *)name->at, name->len, path, 2,
			                         err);
	}
	return r < 0 ? r : 0;
}

int dcp_lightning(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                  struct sf_ckpt_builder *b, struct dcp_lightning *ret, struct sf_error *err)
{
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { .limit = META_MAX };
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = 4096 };
	const struct sf_objinfo *file = sf_format_listed(files, n, META_NAME);
	struct sf_error why = SF_ERROR_INIT;
	const struct sf_pv *v;
	struct sf_pv *dict;
	uint64_t step;
	int r;

	if (!file)
		return 0;
	r = sf_torch_file_value(store, file, META_MAX, &arena, &dict, &why);
	if (r == -EBADMSG)
		return sf_ckpt_builder_warn(b, NULL, "unreadable-file", "%s", why.msg);
	if (r == -ENOTSUP || r == -E2BIG || (r >= 0 && !usable(b, dict, &name)))
		return 0;
	if (r < 0)
		return sf_fail(err, r, "%s", why.msg);
	v = sf_pv_get(dict, "global_step");
	if (v && sf_pv_u64(v, &step) && step <= INT64_MAX)
		ret->step = (int64_t)step;
	v = sf_pv_get(dict, "pytorch-lightning_version");
	if (v && v->kind == SF_PV_STR)
		snprintf(ret->version, sizeof(ret->version), "%s", v->str.at);
	sf_ckpt_builder_beside(b);
	return add_members(b, file, dict, &name, err);
}
