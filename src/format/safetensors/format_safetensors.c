#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "format/format.h"
#include "format/format_unread.h"
#include "format/safetensors/format_safetensors.h"
#include "format/safetensors/safetensors_priv.h"

/*
 * Files of safetensors: one, several with an index, or DCP's shards, whose headers say where each
 * part of a tensor lies. Source: pytorch/pytorch torch/distributed/checkpoint/hf_storage.py and
 * _hf_utils.py, 2.14; huggingface/transformers' modeling_utils (index; weight_map is followed,
 * never the names' pattern).
 */

#define HF_NAME_MAX (SF_FORMAT_NAME_MAX + 4096u)

bool safetensors_is_dir(const struct sf_objinfo *files, size_t n, const char *dir)
{
	const struct sf_format_dir src = { .files = files, .nfiles = n, .dir = dir };

	return safetensors_count(&src, false) > 0;
}

/* One rank's flat tensors, under the same names as the others': halves of an OLMo checkpoint. */
static bool is_of_ranks(const struct sf_objinfo *files, size_t n)
{
	static const char pattern[] = "rank_[0-9]*.safetensors";

	for (size_t i = 0; i < n; i++)
		if (sf_glob_match(pattern, strlen(pattern), files[i].name, strlen(files[i].name)))
			return true;
	return false;
}

static int hf_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                    struct sf_error *err)
{
	const struct sf_format_dir src = { .files = files, .nfiles = n, .dir = "" };
	(void)store;
	(void)err;

	if (is_of_ranks(files, n))
		return 0;
	return sf_format_listed(files, n, SAFETENSORS_INDEX) || safetensors_count(&src, false) ? 45
	       : safetensors_count(&src, true)                                                 ? 35
	                                                                                       : 0;
}

static int load(struct safetensors_lowering *h)
{
	const struct sf_objinfo *index = safetensors_listed(h, SAFETENSORS_INDEX);
	int r = index ? safetensors_read_index(h, index) : 0;

	if (r >= 0 && index)
		r = sf_format_find(h->src, h->names.at, h->names.n, h->b, &h->found, h->err);
	if (r >= 0 && !h->nindexed)
		r = safetensors_take_listing(h);
	if (r >= 0)
		r = safetensors_take_files(h);
	if (r >= 0 && h->unread && h->sharded)
		return sf_fail(h->err, -EBADMSG,
		               "%u files of a sharded save cannot be read, and they may hold a "
		               "part of every tensor",
		               h->unread);
	if (r >= 0 && h->unread && h->unread == h->names.n)
		return sf_fail_ctx(h->err, -EBADMSG, "no safetensors file can be read");
	if (r >= 0 && h->left_out && h->left_out == h->keys.n)
		return sf_fail_ctx(h->err, -EBADMSG, "none of the %zu tensors has a known place",
		                   h->keys.n);
	return r < 0 ? r : safetensors_lower(h);
}

int safetensors_load_dir(const struct sf_format_dir *dir, struct sf_ckpt_builder *b,
                         struct safetensors_facts *ret, struct sf_error *err)
{
	/* what becomes a warning leaves its message here: the caller's is for a failure */
	struct sf_error own = SF_ERROR_INIT;
	struct sf_format_dir src = *dir;
	struct safetensors_lowering h = {
		.src = &src, .b = b, .err = &own, .name.limit = HF_NAME_MAX
	};
	int r = load(&h);

	*ret = (struct safetensors_facts){ .sharded = h.sharded, .mtime_ns = h.mtime };
	safetensors_names_release(&h.names);
	safetensors_pieces_release(&h.pieces);
	safetensors_keys_release(&h.keys);
	safetensors_origins_release(&h.origins);
	sf_map_release(&h.key_map);
	sf_map_release(&h.file_map);
	free(h.key_file);
	sf_json_free(h.index);
	sf_buf_release(&h.name);
	sf_arena_release(&h.arena);
	sf_format_found_release(&h.found);
	return r < 0 ? sf_fail(err, r, "%s", own.msg) : r;
}

static int hf_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                   const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	const struct sf_format_dir src = { .store = store, .files = files, .nfiles = n, .dir = "" };
	struct sf_ckpt_builder *b = NULL;
	struct safetensors_facts facts;
	int r;

	(void)opt;
	r = sf_ckpt_builder_new("safetensors", store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(b, files, n, err);
	if (r >= 0)
		r = safetensors_load_dir(&src, b, &facts, err);
	if (r >= 0)
		r = sf_unread_warn(b, files, n);
	if (r >= 0) {
		sf_ckpt_builder_facts(b, safetensors_writer(&facts), NULL,
		                      sf_format_step(store->source), 0, facts.mtime_ns);
		r = sf_ckpt_builder_finish(b, ret, err);
	}
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

const char *safetensors_writer(const struct safetensors_facts *f)
{
	return f->sharded ? "torch >= 2.7 (HuggingFace storage)" : NULL;
}

/* DCP's Hugging Face writer makes them too. */
static const char *const also[] = { "dcp", NULL };

static const char *const names[] = { SAFETENSORS_INDEX, "model.safetensors",
	                             "adapter_model.safetensors", NULL };

const struct sf_format sf_format_safetensors = {
	.name = "safetensors",
	.also = also,
	.marker = "*.safetensors",
	.sought = "model.safetensors, with or without .index.json",
	.names = names,
	.about = "safetensors files: plain, with an index, or DCP's shards",
	.probe = hf_probe,
	.load = hf_load,
};
