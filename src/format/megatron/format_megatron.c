#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/ckpt_builder.h"
#include "format/format.h"
#include "format/format_unread.h"
#include "format/megatron/megatron.h"
#include "store/source.h"

static int probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                 struct sf_error *err)
{
	struct megatron_found found;
	int r = megatron_find(store, files, n, &found, err);

	if (r < 0)
		return r;
	switch (found.kind) {
	case MEGATRON_DIST:
	case MEGATRON_ZARR:
		return 90;
	case MEGATRON_LEGACY:
		return 80;
	case MEGATRON_OPEN:
		return 60;
	default:
		return 0;
	}
}

static int load_keys(const struct megatron_found *found, struct sf_format_dir *src,
                     struct sf_ckpt_builder *b, struct megatron_facts *facts, struct sf_error *err)
{
	switch (found->kind) {
	case MEGATRON_DIST:
		return megatron_load_dist(src, b, facts, err);
	case MEGATRON_ZARR:
		return megatron_load_zarr(src, b, facts, err);
	case MEGATRON_LEGACY:
		return megatron_load_legacy(src, b, facts, err);
	default:
		return sf_fail(err, -ENOENT,
		               "'%s': not committed: %s is there, but no %smetadata.json, which "
		               "Megatron writes last%s",
		               src->store->source, found->file->name, src->dir,
		               sf_has_suffix(found->file->name, ".zarray")
		                       ? ""
		                       : "; --source-format dcp shows what is there");
	}
}

/* sf_ckpt_look */
static int look_at(void *arg, const char *file, struct sf_error *err)
{
	struct sf_store *store = arg;
	struct sf_source *src = NULL;
	int r = store->ops->open(store, file, NULL, &src, err);

	sf_source_unref(src);
	return r;
}

static void set_facts(struct sf_ckpt_builder *b, const struct sf_store *store,
                      const struct megatron_facts *facts)
{
	const int64_t step = sf_format_step(store->source);

	sf_ckpt_builder_facts(b, facts->writer, facts->content, step >= 0 ? step : facts->iteration,
	                      facts->ranks, facts->mtime_ns);
}

static int load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	struct sf_format_dir src = { .store = store, .files = files, .nfiles = n };
	struct megatron_facts facts = { .iteration = -1,
		                        .join_rules = opt ? opt->join_rules : NULL };
	struct sf_ckpt_builder *b = NULL;
	struct megatron_found found;
	int r;

	r = megatron_find(store, files, n, &found, err);
	if (r < 0)
		return r;
	src.dir = found.dir;
	facts.mtime_ns = found.file ? found.file->version.mtime_ns : 0;
	r = sf_ckpt_builder_new("megatron", store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(b, files, n, err);
	if (r >= 0) {
		sf_ckpt_builder_look(b, look_at, store);
		r = load_keys(&found, &src, b, &facts, err);
	}
	if (r >= 0) {
		set_facts(b, store, &facts);
		r = sf_unread_warn(b, files, n);
	}
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, err);
	free(facts.content);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

static const char *const names[] = {
	"metadata.json",     "common.pt",         ".metadata", "weights/metadata.json",
	"weights/common.pt", "weights/.metadata", NULL,
};

const struct sf_format sf_format_megatron = {
	.name = "megatron",
	.about = "Megatron-Core checkpoint",
	.marker = "metadata.json",
	.sought = "metadata.json, in it or below weights/,",
	.marker_file = "metadata.json",
	.names = names,
	.probe = probe,
	.load = load,
};
