#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "format/dcp/dcp_composite.h"
#include "format/dcp/dcp_lower.h"
#include "format/dcp/dcp_dir.h"
#include "format/safetensors/format_safetensors.h"

enum kind {
	NOTHING,     /* no checkpoint that is read */
	UNCOMMITTED, /* DCP's data without its metadata */
	DCP,
	HF, /* safetensors files */
};

/* A directory of the listing with a known name: its files are files[at .. at + n). */
struct child {
	const char *dir;       /* "model/"; "": the source itself */
	const char *container; /* "model", "optim"; NULL: keys as they are */
	size_t at, n;
	enum kind kind;
};
SF_VEC(children, struct child);

/* Source: huggingface/accelerate utils/fsdp_utils.py (FSDP_MODEL_NAME, OPTIMIZER_NAME),
 * volcengine/ByteCheckpoint, allenai/OLMo-core (model_and_optim), NVIDIA NeMo Automodel
 * (model, optim). */
static bool container_of(const char *name, size_t len, const char **ret)
{
	static const struct {
		const char *name;
		bool begins;
		const char *container;
	} known[] = {
		{ "pytorch_model_fsdp_", true, "model" },
		{ "model", false, "model" },
		{ "optimizer", true, "optim" },
		{ "optim", false, "optim" },
		{ "weights", false, NULL },
		{ "model_and_optim", false, NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++) {
		size_t n = strlen(known[i].name);
		if (len >= n && memcmp(name, known[i].name, n) == 0 &&
		    (len == n || known[i].begins)) {
			*ret = known[i].container;
			return true;
		}
	}
	return false;
}

static bool is_optim(const struct child *c)
{
	return c->container && strcmp(c->container, "optim") == 0;
}

/* safetensors beside a metadata.json are those of OLMo-core before 1.0: flat parts, not tensors. */
static enum kind kind_of(const struct sf_objinfo *files, const struct child *c)
{
	bool data = false, tensors = false, other = false;

	for (size_t i = c->at; i < c->at + c->n; i++) {
		const char *name = files[i].name + strlen(c->dir);
		if (strcmp(name, ".metadata") == 0 || dcp_rank_metadata(name, "") == 0)
			return DCP;
		data = data || sf_has_suffix(name, ".distcp") ||
		       sf_has_suffix(name, ".metadata.tmp");
		tensors = tensors || sf_has_suffix(name, ".safetensors");
		other = other || strcmp(name, "metadata.json") == 0;
	}
	return data ? UNCOMMITTED : tensors && !other ? HF : NOTHING;
}

/* Directories with a known name, in order of names. Their names are @arena's. */
static int find_dirs(const struct sf_objinfo *files, size_t n, struct sf_arena *arena,
                     struct children *ret)
{
	size_t i = 0;

	while (i < n) {
		const char *slash = strchr(files[i].name, '/');
		size_t len = slash ? (size_t)(slash - files[i].name) + 1 : 0;
		struct child c = { .at = i };
		if (!slash || !container_of(files[i].name, len - 1, &c.container)) {
			i++;
			continue;
		}
		while (i < n && strncmp(files[i].name, files[c.at].name, len) == 0)
			i++;
		c.n = i - c.at;
		c.dir = sf_arena_strdup(arena, files[c.at].name, len);
		if (!c.dir)
			return -ENOMEM;
		c.kind = kind_of(files, &c);
		if (c.kind != NOTHING && children_push(ret, c) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Readable children, models before optimizers: the order of keys. */
static int find_children(const struct sf_objinfo *files, size_t n, struct sf_arena *arena,
                         struct children *ret)
{
	SF_CLEANUP(children_release) struct children dirs = { 0 };
	bool model = false, dcp = false;
	int r = find_dirs(files, n, arena, &dirs);

	for (size_t i = 0; i < dirs.n; i++) {
		dcp = dcp || dirs.at[i].kind == DCP;
		model = model || (dirs.at[i].kind >= DCP && !is_optim(&dirs.at[i]));
	}
	/* safetensors at the top are the model of optimizers below, where those have no other */
	if (r >= 0 && dcp && !model && safetensors_is_dir(files, n, "")) {
		struct child top = { .dir = "", .container = "model", .n = n, .kind = HF };
		r = children_push(ret, top);
	}
	for (int optim = 0; optim < 2; optim++)
		for (size_t i = 0; i < dirs.n && r >= 0; i++)
			if (dirs.at[i].kind >= DCP && is_optim(&dirs.at[i]) == (optim == 1))
				r = children_push(ret, dirs.at[i]);
	return r;
}

int dcp_is_composite(const struct sf_objinfo *files, size_t n)
{
	SF_CLEANUP(children_release) struct children c = { 0 };
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
	int r = find_children(files, n, &arena, &c);

	for (size_t i = 0; i < c.n && r < 2; i++)
		r = r < 0 ? r : c.at[i].kind == DCP ? 2 : 1;
	return r;
}

/* Do all keys lie below one container whose name says what @container would: model, or optim and
 * optimizer? */
static bool has_own_container(const struct dcp_meta *m, const char *container)
{
	size_t n = strlen(container);

	for (size_t i = 0; i < m->path.n; i++) {
		const struct dcp_str *s;
		if (m->path.at[i].n < 2)
			return false;
		s = &m->str.at[m->elem.at[m->path.at[i].elem0].text];
		if (s->len < n || memcmp(s->at, container, n) != 0)
			return false;
	}
	if (m->path.n)
		return true;
	for (size_t i = 0; i < m->key.n; i++) { /* no planner data: by the text */
		const struct dcp_str *s = &m->str.at[m->key.at[i].name];
		if (s->len <= n || memcmp(s->at, container, n) != 0 ||
		    (s->at[n] != '.' && (s->len < 10 || memcmp(s->at, "optimizer.", 10) != 0)))
			return false;
	}
	return m->key.n > 0;
}

/* What the whole has of its children. */
struct facts {
	const char *writer;
	uint32_t ranks;
	int64_t mtime;
};

static int load_dcp(struct sf_format_dir *src, const struct child *c, struct sf_ckpt_builder *b,
                    struct facts *facts, struct sf_error *err)
{
	SF_CLEANUP(sf_format_found_release) struct sf_format_found more = { 0 };
	struct dcp_meta m = { 0 };
	struct dcp_found found;
	int r = dcp_find_ranks(src, b, &more, err);

	if (r >= 0)
		r = dcp_read_dir(&m, src->store, src->files, src->nfiles, c->dir, &found, err);
	if (r >= 0)
		r = dcp_find_files(&m, src, b, &more, err);
	if (r >= 0) {
		if (!src->prefix && c->container && !has_own_container(&m, c->container))
			src->prefix = c->container;
		r = dcp_lower(&m, src, b, err);
		if (r >= 0)
			r = dcp_warn_unread(b, c->dir, &found);
		facts->writer = dcp_writer(&m.facts);
		facts->ranks = SF_MAX(facts->ranks, dcp_count_ranks(&m));
		facts->mtime = SF_MAX(facts->mtime, found.mtime_ns);
	}
	dcp_meta_release(&m);
	return r;
}

static int load_hf(struct sf_format_dir *src, const struct child *c, struct sf_ckpt_builder *b,
                   struct facts *facts, struct sf_error *err)
{
	struct safetensors_facts hf;
	int r;

	if (!src->prefix)
		src->prefix = c->container;
	r = safetensors_load_dir(src, b, &hf, err);
	if (r >= 0 && !facts->writer)
		facts->writer = safetensors_writer(&hf);
	if (r >= 0)
		facts->mtime = SF_MAX(facts->mtime, hf.mtime_ns);
	return r;
}

/* A child whose save did not finish is left out, and said: what is whole is shown. */
static int warn_uncommitted(const struct sf_objinfo *files, const struct children *dirs,
                            struct sf_ckpt_builder *b)
{
	int r = 0;

	for (size_t i = 0; i < dirs->n && r >= 0; i++) {
		const struct child *c = &dirs->at[i];
		size_t k = c->at;
		if (c->kind != UNCOMMITTED)
			continue;
		while (!sf_has_suffix(files[k].name, ".distcp") &&
		       !sf_has_suffix(files[k].name, ".metadata.tmp"))
			k++;
		r = sf_ckpt_builder_warn(b, NULL, "not-committed",
		                         "%s is left out: it has %s but no .metadata, "
		                         "the save did not finish",
		                         c->dir, files[k].name + strlen(c->dir));
	}
	return r;
}

int dcp_load_composite(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                       struct sf_ckpt_builder *b, struct sf_error *err)
{
	SF_CLEANUP(children_release) struct children kids = { 0 }, dirs = { 0 };
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
	bool seen[3] = { false }; /* as they are, model, optim */
	struct facts facts = { NULL, 0, 0 };
	int r = find_children(files, n, &arena, &kids);

	if (r >= 0)
		r = find_dirs(files, n, &arena, &dirs);
	if (r < 0)
		sf_fail(err, r, "no memory for %zu directories", kids.n + dirs.n);
	for (size_t i = 0; i < kids.n && r >= 0; i++) {
		const struct child *c = &kids.at[i];
		struct sf_format_dir src = {
			.store = store, .files = files + c->at, .nfiles = c->n, .dir = c->dir
		};
		bool *again = &seen[!c->container ? 0 : is_optim(c) ? 2 : 1];
		if (*again) { /* a second model: under its directory's name */
			src.prefix = sf_arena_strdup(&arena, c->dir, strlen(c->dir) - 1);
			if (!src.prefix)
				r = sf_fail(err, -ENOMEM, "no memory for '%s'", c->dir);
		}
		*again = true;
		if (r >= 0)
			r = (c->kind == DCP ? load_dcp : load_hf)(&src, c, b, &facts, err);
	}
	if (r >= 0)
		r = warn_uncommitted(files, &dirs, b);
	if (r >= 0)
		sf_ckpt_builder_facts(b, facts.writer, NULL, sf_format_step(store->source),
		                      facts.ranks, facts.mtime);
	return r;
}
