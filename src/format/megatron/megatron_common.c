#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/megatron/megatron.h"
#include "format/torch/torch_lower.h"

#define CONTENT_MAX (64u << 10) /* bytes of content_metadata as JSON: Megatron's has 200 */
#define CONTENT_DEPTH 8

/* Plain values as JSON; false: there is something else among them. */
static bool put_json(struct sf_buf *out, const struct sf_pv *v, unsigned depth)
{
	bool plain = depth < CONTENT_DEPTH;

	switch (plain ? v->kind : SF_PV_SET) {
	case SF_PV_NONE:
		sf_buf_str(out, "null");
		return true;
	case SF_PV_BOOL:
		sf_buf_str(out, v->b ? "true" : "false");
		return true;
	case SF_PV_INT:
		sf_buf_printf(out, "%" PRId64, v->i);
		return true;
	case SF_PV_STR:
		sf_escape_json(out, v->str.at, v->str.len);
		return true;
	case SF_PV_TUPLE:
	case SF_PV_LIST:
		for (size_t i = 0; i < v->seq.n && plain; i++) {
			sf_buf_str(out, i ? ", " : "[");
			plain = put_json(out, v->seq.at[i], depth + 1);
		}
		sf_buf_str(out, v->seq.n ? "]" : "[]");
		return plain;
	case SF_PV_DICT:
		for (size_t i = 0; i + 1 < v->seq.n && plain; i += 2) {
			sf_buf_str(out, i ? ", " : "{");
			plain = v->seq.at[i]->kind == SF_PV_STR &&
			        put_json(out, v->seq.at[i], depth + 1);
			sf_buf_str(out, ": ");
			plain = plain && put_json(out, v->seq.at[i + 1], depth + 1);
		}
		sf_buf_str(out, v->seq.n ? "}" : "{}");
		return plain;
	default:
		return false;
	}
}

/* What says how the optimizer's state was sharded; its keys are there as well. */
static int take_content(const struct sf_pv *v, struct megatron_facts *facts)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf text = { .limit = CONTENT_MAX };

	if (!v || !put_json(&text, v, 0) || sf_buf_check(&text) == -E2BIG)
		return 0;
	facts->content = sf_buf_cstr(&text) ? strdup((const char *)text.at) : NULL;
	return facts->content ? 0 : -ENOMEM;
}

int megatron_common(struct sf_ckpt_builder *b, struct sf_torch_part *part, struct sf_pv *value,
                    struct megatron_facts *facts, struct sf_error *err)
{
	static const struct sf_path_elem prefix = { "common", 6, SF_PATH_TEXT };
	SF_CLEANUP(sf_torch_ties_release) struct sf_torch_ties ties = { 0 };
	const struct sf_torch_lower l = {
		.b = b, .part = part, .prefix = &prefix, .nprefix = 1, .ties = &ties
	};
	const struct sf_pv *iteration = sf_pv_get(value, "iteration");
	uint64_t step;

	if (iteration && sf_pv_u64(iteration, &step) && step <= INT64_MAX)
		facts->iteration = (int64_t)step;
	if (take_content(sf_pv_get(value, "content_metadata"), facts) < 0)
		return sf_fail(err, -ENOMEM, "no memory for content_metadata");
	if (value->kind == SF_PV_DICT && value->seq.n == 0) /* only tensors were saved */
		return sf_torch_part_place(part, b, err);
	return sf_torch_lower(&l, value, err);
}

static int lower_file(struct sf_torch_part *part, struct sf_ckpt_builder *b,
                      struct megatron_facts *facts, struct sf_error *err)
{
	if (part->r == -EBADMSG || part->r == -ENOTSUP)
		return sf_ckpt_builder_warn(b, NULL, "unreadable-file", "%s", part->err.msg);
	if (part->r < 0)
		return sf_fail(err, part->r, "%s", part->err.msg);
	return megatron_common(b, part, part->archive.root, facts, err);
}

int megatron_common_file(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                         struct megatron_facts *facts, struct sf_error *err)
{
	struct sf_torch_part part = { .file = sf_format_file(src, "common.pt", 9) };
	int r;

	if (!part.file)
		return 0;
	r = sf_torch_parts_open(src->store, &part, 1, MEGATRON_VALUE_MAX, err);
	if (r >= 0)
		r = lower_file(&part, b, facts, err);
	sf_torch_parts_release(&part, 1);
	return r;
}
