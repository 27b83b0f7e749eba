#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_dir.h"
#include "format/dcp/dcp_lower.h"
#include "format/megatron/megatron.h"
#include "store/source.h"

/*
 * torch_dist: DCP's files, written by DCP's code. What is not DCP's: tensors that the distributed
 * optimizer flattened (format/dcp/dcp_flat.h), objects that are shards and stand in a list each, and
 * a state that is common to all ranks: in common.pt, from 0.19 on in such an object.
 * Source: NVIDIA/Megatron-LM megatron/core/dist_checkpointing/, 0.8 to 0.19.
 */

/* 0.19's item of the common state; NULL: it has none. */
static const struct dcp_item *common_item(const struct dcp_meta *m)
{
	const uint32_t name =
		dcp_meta_str_find(m, MEGATRON_COMMON_KEY, strlen(MEGATRON_COMMON_KEY));

	for (size_t i = 0; name != DCP_NONE && i < m->bytes.n; i++)
		if (m->bytes.at[i].name == name)
			return &m->bytes.at[i].item;
	return NULL;
}

/* The archive in the middle of a data file, as a part: its bytes are a member of that file. */
static int open_common(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                       const struct sf_objinfo *file, const struct dcp_item *item,
                       struct sf_torch_part *part, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *s = NULL;
	struct sf_torch_source from = { .off = item->off, .kind = SF_FETCH_METADATA };
	const struct sf_torch_input in = { item->len, NULL, sf_torch_source_read, &from };
	const struct sf_torch_options opt = { .part_max = MEGATRON_VALUE_MAX };
	uint32_t container;
	int r = src->store->ops->open(src->store, file->name, file, &s, err);

	if (r < 0)
		return r;
	from.src = s;
	if (item->off > s->size || item->len > s->size - item->off)
		return sf_fail(err, -EBADMSG,
		               "'%s': the common state is to have %llu bytes at %llu of %llu",
		               file->name, (unsigned long long)item->len,
		               (unsigned long long)item->off, (unsigned long long)s->size);
	r = sf_torch_open(&in, &opt, &part->arena, &part->archive, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': %s", file->name, MEGATRON_COMMON_KEY);
	r = sf_ckpt_builder_file(b, file->name, strlen(file->name), &container, err);
	if (r >= 0)
		r = sf_ckpt_builder_member(b, container, MEGATRON_COMMON_KEY,
		                           strlen(MEGATRON_COMMON_KEY), item->off, item->len,
		                           &container, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, container, SF_ITEM_RAW, SF_CODEC_NONE, 0,
		                             &part->place, err);
	part->file = file;
	part->len = item->len;
	return r;
}

/* Its own value, in the list of one that every such object stands in. */
static struct sf_pv *in_list(struct sf_pv *v)
{
	return v->kind == SF_PV_LIST && v->seq.n == 1 ? v->seq.at[0] : v;
}

static int common_in_data(const struct sf_format_dir *src, const struct dcp_meta *m,
                          const struct dcp_item *item, struct sf_ckpt_builder *b,
                          struct megatron_facts *facts, struct sf_error *err)
{
	const struct dcp_str *path = &m->str.at[m->place.at[item->place].path];
	const struct sf_objinfo *file = sf_format_file(src, path->at, path->len);
	struct sf_error why = SF_ERROR_INIT;
	struct sf_torch_part part = { .place = SF_NONE };
	int r = -ENOENT;

	if (file)
		r = open_common(src, b, file, item, &part, &why);
	else /* the file that is missing has a warning of its own */
		sf_fail(&why, r, "the file of %s is not there", MEGATRON_COMMON_KEY);
	if (r >= 0)
		r = megatron_common(b, &part, in_list(part.archive.root), facts, err);
	else if (r == -EBADMSG || r == -ENOENT || r == -ENOTSUP)
		r = sf_ckpt_builder_warn(b, NULL, "unreadable-file", "the common state: %s",
		                         why.msg);
	else
		sf_fail(err, r, "%s", why.msg);
	sf_torch_parts_release(&part, 1);
	return r;
}

/* Groups of all keys; objects stand in lists. */
static int settle_keys(const struct dcp_meta *m, struct sf_ckpt_builder *b, struct sf_error *err)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = DCP_STRING_MAX };
	int r = 0;

	for (size_t i = 0; i < m->key.n && r >= 0; i++) {
		const struct dcp_str *s = &m->str.at[m->key.at[i].name];
		bool is_tensor;
		char *to;
		sf_buf_reset(&name);
		to = sf_buf_extend(&name, (size_t)s->len + 1);
		if (!to)
			return sf_fail(err, -ENOMEM, "no memory for a key of %u bytes", s->len);
		const size_t len = sf_surrogates_to_bytes(s->at, s->len, to);
		const uint32_t at = sf_ckpt_builder_find(b, to, len, &is_tensor);
		if (at == SF_NONE)
			continue;
		if (!is_tensor && m->key.at[i].tensor == DCP_NONE)
			sf_ckpt_builder_set_in_list(b, at);
		r = megatron_group(b, to, len, err);
	}
	return r;
}

static const char *writer_of(const struct sf_format_dir *src, const struct dcp_meta *m)
{
	if (m->facts.mcore_class)
		return "Megatron-Core 0.15";
	if (m->facts.mcore_data)
		return "Megatron-Core 0.8 to 0.14";
	if (common_item(m))
		return "Megatron-Core >= 0.19";
	return sf_format_file(src, "common.pt", 9) ? "Megatron-Core <= 0.18" : "Megatron-Core";
}

static int lower(struct dcp_meta *m, const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                 struct megatron_facts *facts, struct sf_error *err)
{
	const struct dcp_item *common = common_item(m);
	int r;

	m->unflatten = true;
	r = dcp_lower(m, src, b, err);
	if (r >= 0)
		r = settle_keys(m, b, err);
	if (r < 0)
		return r;
	sf_ckpt_builder_beside(b);
	facts->writer = writer_of(src, m);
	facts->ranks = dcp_count_ranks(m);
	return common ? common_in_data(src, m, common, b, facts, err)
	              : megatron_common_file(src, b, facts, err);
}

int megatron_load_dist(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                       struct megatron_facts *facts, struct sf_error *err)
{
	SF_CLEANUP(sf_format_found_release) struct sf_format_found more = { 0 };
	struct dcp_meta meta = { 0 };
	struct dcp_found found;
	int r;

	if (!dcp_has_metadata(src->files, src->nfiles, src->dir))
		return sf_fail(err, -ENOENT,
		               "'%s': %smetadata.json says torch_dist, but %s.metadata is missing",
		               src->store->source, src->dir, src->dir);
	r = dcp_read_dir(&meta, src->store, src->files, src->nfiles, src->dir, &found, err);
	if (r >= 0)
		r = dcp_find_files(&meta, src, b, &more, err);
	if (r >= 0)
		r = lower(&meta, src, b, facts, err);
	if (r >= 0)
		r = dcp_warn_unread(b, src->dir, &found);
	dcp_meta_release(&meta);
	return r;
}
