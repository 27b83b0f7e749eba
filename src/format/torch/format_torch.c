#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/format.h"
#include "format/format_unread.h"
#include "format/torch/torch_lower.h"
#include "format/torch/torch_priv.h"
#include "store/source.h"

/*
 * Files of torch.save: one (.pt, .pth, .bin, .ckpt), or several of which an index says who has what
 * (Hugging Face). Keys are the paths of what is in them, joined by dots.
 */

#define AT_ONCE 16 /* files whose values are in memory together */

struct load {
	struct sf_format_dir src;
	struct sf_ckpt_builder *b;
	struct torch_facts facts;
	int64_t mtime_ns;
	size_t opened;
	struct sf_error *err;
};

/* ---- probe ---- */

/* Do its first bytes say so? A file that cannot be read is whose name it has. */
static enum sf_torch_container container_of(struct sf_store *store, const struct sf_objinfo *file)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	uint8_t head[SF_TORCH_HEAD];
	size_t len = (size_t)SF_MIN(file->size, (uint64_t)sizeof(head));

	if (store->ops->open(store, file->name, file, &src, NULL) < 0 ||
	    sf_source_read(src, 0, head, len, SF_FETCH_METADATA, NULL) < 0)
		return SF_TORCH_NONE;
	return sf_torch_container(head, len);
}

static int torch_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                       struct sf_error *err)
{
	const struct torch_choice c = torch_choose(files, n);

	(void)err;
	if (c.layout == TORCH_NOTHING)
		return 0;
	if (c.layout == TORCH_INDEX)
		return 44; /* a model has safetensors beside it: those */
	if (n == 1 && !sf_has_suffix(c.file->name, ".safetensors"))
		return container_of(store, c.file) != SF_TORCH_NONE ? 43 : c.named ? 10 : 0;
	return c.named ? 43 : n == 1 ? 0 : 5;
}

/* ---- load ---- */

/* Is it the same with the next look? */
static bool is_malformed(int code)
{
	return code == -EBADMSG || code == -ENOTSUP || code == -E2BIG;
}

static int lower_part(struct load *l, struct sf_torch_part *part)
{
	SF_CLEANUP(sf_torch_ties_release) struct sf_torch_ties ties = { 0 };
	const struct sf_torch_lower how = { .b = l->b, .part = part, .ties = &ties, .whole = true };
	const struct sf_pv *root = part->archive.root;
	int r = sf_torch_part_place(part, l->b, l->err);

	if (!l->opened++)
		torch_facts_of(root, l->src.store->source, &l->facts);
	l->mtime_ns = SF_MAX(l->mtime_ns, part->file->version.mtime_ns);
	if (r < 0 || (root->kind == SF_PV_DICT && !root->seq.n)) /* {}: no keys */
		return r;
	return sf_torch_lower(&how, part->archive.root, l->err);
}

/* A part that cannot be read costs its keys, where others can. */
static int pass_over(struct load *l, const struct sf_torch_part *part, uint32_t keys)
{
	if (!is_malformed(part->r))
		return sf_fail(l->err, part->r, "%s", part->err.msg);
	return sf_ckpt_builder_warn(l->b, NULL, "unreadable-file",
	                            "its %" PRIu32 " keys are left out: %s", keys, part->err.msg);
}

static int load_parts(struct load *l, const struct sf_objinfo *const *file, const uint32_t *keys,
                      size_t n)
{
	struct sf_torch_part part[AT_ONCE];
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i += AT_ONCE) {
		const size_t k = SF_MIN(n - i, (size_t)AT_ONCE);
		for (size_t j = 0; j < k; j++)
			part[j] = (struct sf_torch_part){ .file = file[i + j] };
		r = sf_torch_parts_open(l->src.store, part, k, 0, l->err);
		for (size_t j = 0; j < k && r >= 0; j++)
			r = part[j].r < 0 ? pass_over(l, &part[j], keys[i + j])
			                  : lower_part(l, &part[j]);
		sf_torch_parts_release(part, k);
	}
	if (r >= 0 && !l->opened)
		return sf_fail(l->err, -EBADMSG, "none of the %zu files of the index can be read",
		               n);
	return r;
}

static int load_index(struct load *l, const struct sf_objinfo *index)
{
	SF_CLEANUP(sf_format_found_release) struct sf_format_found found = { .files = { 0 } };
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
	SF_CLEANUP(torch_names_release) struct torch_names names = { 0 };
	SF_CLEANUP(sf_buf_release) struct sf_buf shown = { .limit = 4096 };
	SF_FREE const struct sf_objinfo **file = NULL;
	SF_FREE uint32_t *keys = NULL;
	size_t n = 0;
	int r = torch_read_index(l->src.store, index, &arena, &names, &keys, l->err);

	if (r >= 0)
		r = sf_format_find(&l->src, names.at, names.n, l->b, &found, l->err);
	if (r < 0)
		return r;
	file = sf_alloc_array(names.n, sizeof(*file));
	if (!file)
		return sf_fail(l->err, -ENOMEM, "no memory for %zu files", names.n);
	for (size_t i = 0; i < names.n && r >= 0; i++) {
		file[n] = sf_format_file(&l->src, names.at[i], strlen(names.at[i]));
		if (file[n]) {
			keys[n++] = keys[i];
			continue;
		}
		sf_buf_reset(&shown);
		sf_escape_text(&shown, names.at[i], SF_MIN(strlen(names.at[i]), 200u));
		r = sf_ckpt_builder_warn(l->b, NULL, "missing-file",
		                         "'%s' is missing: its %" PRIu32 " keys are left out",
		                         sf_buf_cstr(&shown), keys[i]);
	}
	if (r >= 0 && !n)
		return sf_fail(l->err, -ENOENT, "'%s' names %zu files, none of them is there",
		               index->name, names.n);
	return r < 0 ? r : load_parts(l, file, keys, n);
}

static int load_one(struct load *l, const struct sf_objinfo *file)
{
	struct sf_torch_part part = { .file = file };
	int r = sf_torch_parts_open(l->src.store, &part, 1, 0, l->err);

	if (r >= 0 && part.r < 0)
		r = sf_fail(l->err, part.r, "%s", part.err.msg);
	if (r >= 0 && part.archive.container == SF_TORCH_TAR)
		r = sf_fail(l->err, -ENOTSUP,
		            "'%s': a tar of torch.save of PyTorch 0.1.9 or older: "
		            "torch.load and torch.save it again",
		            file->name);
	if (r >= 0)
		r = lower_part(l, &part);
	sf_torch_parts_release(&part, 1);
	return r;
}

static int torch_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                      const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	const struct torch_choice c = torch_choose(files, n);
	struct load l = { .src = { .store = store, .files = files, .nfiles = n, .dir = "" },
		          .err = err };
	int r = sf_ckpt_builder_new("torch", store->source, &l.b, err);

	(void)opt;
	if (r >= 0)
		r = sf_ckpt_builder_listing(l.b, files, n, err);
	if (r >= 0)
		r = c.layout == TORCH_INDEX ? load_index(&l, c.file) : load_one(&l, c.file);
	if (r >= 0)
		r = sf_unread_warn(l.b, l.src.files, l.src.nfiles);
	if (r >= 0) {
		sf_ckpt_builder_facts(l.b, l.facts.writer[0] ? l.facts.writer : NULL, NULL,
		                      l.facts.step, 0, l.mtime_ns);
		r = sf_ckpt_builder_finish(l.b, ret, err);
	}
	if (r < 0)
		sf_ckpt_builder_free(l.b);
	return r;
}

static const char *const also[] = { "composer", NULL };
static const char *const names[] = { "pytorch_model.bin.index.json", "pytorch_model.bin", NULL };

const struct sf_format sf_format_torch = {
	.name = "torch",
	.also = also,
	.marker = "*.pt",
	.sought = "pytorch_model.bin, with or without .index.json",
	.names = names,
	.about = "files of torch.save: one, or several with an index",
	.probe = torch_probe,
	.load = torch_load,
};
