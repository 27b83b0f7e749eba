#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/ckpt_builder.h"
#include "format/dcp/dcp_composite.h"
#include "format/dcp/dcp_dir.h"
#include "format/dcp/dcp_lightning.h"
#include "format/dcp/dcp_lower.h"
#include "format/format.h"
#include "format/format_unread.h"
#include "format/megatron/megatron.h"
#include "store/source.h"

static int dcp_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                     struct sf_error *err)
{
	int r;
	(void)store;

	if (dcp_has_metadata(files, n, ""))
		return 50;
	r = dcp_is_composite(files, n);
	if (r < 0)
		return sf_fail(err, r, "no memory for %zu files", n);
	return r == 2 ? 48 : r == 1 ? 40 : 0; /* 45: plain safetensors files at the top */
}

/* Asked for by name: else megatron's is the surer word. */
static int warn_megatron(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                         struct sf_ckpt_builder *b, struct sf_error *err)
{
	struct megatron_found found;
	int r = megatron_find(store, files, n, &found, err);

	if (r < 0 || found.kind != MEGATRON_DIST)
		return r;
	return sf_ckpt_builder_warn(
		b, NULL, "plain-reading",
		"a Megatron torch_dist checkpoint (%s) read as plain DCP: weights and optimizer "
		"are one group, flattened tensors have the shapes they are stored in%s",
		found.file->name,
		sf_format_listed(files, n, "common.pt") ? ", and common.pt is not read" : "");
}

static void set_facts(struct sf_ckpt_builder *b, const struct sf_store *store,
                      const struct dcp_meta *m, const struct dcp_found *found,
                      const struct dcp_lightning *lightning)
{
	const char *torch = dcp_writer(&m->facts);
	int64_t step = sf_format_step(store->source);
	char writer[128];

	snprintf(writer, sizeof(writer), "Lightning %s, %s", lightning->version, torch);
	sf_ckpt_builder_facts(b, *lightning->version ? writer : torch, NULL,
	                      step >= 0 ? step : lightning->step, dcp_count_ranks(m),
	                      found->mtime_ns);
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

static int dcp_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                    const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_format_found_release) struct sf_format_found more = { 0 };
	struct sf_format_dir src = { .store = store, .files = files, .nfiles = n, .dir = "" };
	struct dcp_meta meta = { 0 };
	struct sf_ckpt_builder *b = NULL;
	struct dcp_lightning lightning = { .step = -1 };
	struct dcp_found found;
	int r;

	r = sf_ckpt_builder_new("dcp", store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(b, files, n, err);
	if (r < 0) {
		sf_ckpt_builder_free(b);
		return r;
	}
	sf_ckpt_builder_look(b, look_at, store);
	if (dcp_has_metadata(files, n, "")) {
		r = dcp_find_ranks(&src, b, &more, err);
		if (r >= 0)
			r = dcp_read_dir(&meta, store, src.files, src.nfiles, "", &found, err);
		if (r >= 0 && !(opt && opt->source_format))
			r = megatron_check_committed(&meta, store, err);
		if (r >= 0)
			r = dcp_find_files(&meta, &src, b, &more, err);
		if (r >= 0)
			r = dcp_lower(&meta, &src, b, err);
		if (r >= 0)
			r = dcp_warn_unread(b, "", &found);
		if (r >= 0)
			r = dcp_lightning(store, files, n, b, &lightning, err);
		if (r >= 0)
			set_facts(b, store, &meta, &found, &lightning);
	} else {
		r = dcp_load_composite(store, files, n, b, err);
	}
	if (r >= 0)
		r = warn_megatron(store, files, n, b, err);
	if (r >= 0)
		r = sf_unread_warn(b, files, n);
	dcp_meta_release(&meta); /* before finish: its columns and the checkpoint's need not be
	                            there together */
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

/* Data files come first, `.metadata` last, by way of a name of its own. */
static int dcp_unfinished(const struct sf_objinfo *files, size_t n, char *why, size_t size)
{
	const char *tmp = NULL, *data = NULL;

	for (size_t i = 0; i < n; i++) {
		if (sf_has_suffix(files[i].name, ".metadata.tmp"))
			tmp = files[i].name;
		else if (sf_has_suffix(files[i].name, ".distcp") && !data)
			data = files[i].name;
	}
	if (tmp)
		snprintf(why, size, "%.300s only, the save did not finish", tmp);
	else if (data)
		snprintf(why, size, "data files (%.300s …) but no .metadata", data);
	return tmp || data;
}

/* These write DCP, some of them among other formats. */
static const char *const dcp_also[] = { "megatron", "olmo-core", "composer", NULL };

static const char *const dcp_names[] = {
	".metadata",
	"__0.metadata",
	"meta.pt", /* Lightning's */
	"metadata.json",
	"common.pt",
	"model/.metadata",
	"optim/.metadata",
	"optimizer/.metadata",
	"pytorch_model_fsdp_0/.metadata",
	"optimizer_0/.metadata",
	"weights/.metadata",
	"weights/metadata.json",
	"model_and_optim/.metadata",
	NULL,
};

const struct sf_format sf_format_dcp = {
	.name = "dcp",
	.about = "PyTorch distributed checkpoint",
	.also = dcp_also,
	.marker = ".metadata",
	.sought = ".metadata, in it or below model/, optim/ or weights/,",
	.marker_file = ".metadata",
	.names = dcp_names,
	.unfinished = dcp_unfinished,
	.probe = dcp_probe,
	.load = dcp_load,
};
