#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "format/format_dcp.h"
#include "format/format_dcp_composite.h"
#include "format/format_dcp_lower.h"

#define CHILDREN_MAX 64 /* a checkpoint has a model or a few, and as many optimizers */
#define CHILD_NAME_MAX 255

struct child {
	char dir[CHILD_NAME_MAX + 2]; /* "model/" */
	const char *container;        /* "model", "optim"; NULL: keys as they are */
};
struct children {
	struct child at[CHILDREN_MAX];
	size_t n;
};

/* Source: huggingface/accelerate utils/fsdp_utils.py (FSDP_MODEL_NAME, OPTIMIZER_NAME),
 * volcengine/ByteCheckpoint, allenai/OLMo-core (model_and_optim). */
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

/* Committed children in order of their names, models before optimizers: the order of keys. */
static void find_children(const struct sf_objinfo *files, size_t n, struct children *ret)
{
	ret->n = 0;
	for (int optim = 0; optim < 2; optim++) {
		for (size_t i = 0; i < n && ret->n < CHILDREN_MAX; i++) {
			const char *slash = strchr(files[i].name, '/');
			size_t len = slash ? (size_t)(slash - files[i].name) : 0;
			struct child c = { .container = NULL };
			if (!slash || len > CHILD_NAME_MAX ||
			    !container_of(files[i].name, len, &c.container) ||
			    (c.container && strcmp(c.container, "optim") == 0) != (optim == 1))
				continue;
			memcpy(c.dir, files[i].name, len + 1);
			c.dir[len + 1] = '\0';
			if (strcmp(slash + 1, ".metadata") != 0 &&
			    dcp_rank_metadata(files[i].name, c.dir) != 0)
				continue;
			if (ret->n && strcmp(ret->at[ret->n - 1].dir, c.dir) == 0)
				continue; /* both kinds of metadata in one */
			ret->at[ret->n++] = c;
		}
	}
}

bool dcp_is_composite(const struct sf_objinfo *files, size_t n)
{
	struct children c;

	find_children(files, n, &c);
	return c.n > 0;
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

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* A child whose save did not finish is left out, and said: what is whole is shown. */
static int warn_uncommitted(const struct sf_objinfo *files, size_t n, const struct children *kids,
                            struct sf_ckpt_builder *b)
{
	const char *container, *last = "";
	size_t last_len = 0;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		const char *name = files[i].name, *slash = strchr(name, '/');
		size_t len = slash ? (size_t)(slash - name) + 1 : 0;
		bool known = len && len == last_len && memcmp(name, last, len) == 0;
		if (!slash || known || !container_of(name, len - 1, &container) ||
		    !(ends(name, ".distcp") || ends(name, ".metadata.tmp")))
			continue;
		for (size_t k = 0; k < kids->n && !known; k++)
			known = strlen(kids->at[k].dir) == len &&
			        memcmp(kids->at[k].dir, name, len) == 0;
		last = name;
		last_len = len;
		if (!known)
			r = sf_ckpt_builder_warn(b, NULL, "not-committed",
			                         "%.*s is left out: it has %s but no .metadata, "
			                         "the save did not finish",
			                         (int)len, name, name + len);
	}
	return r;
}

int dcp_load_composite(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                       struct sf_ckpt_builder *b, struct sf_error *err)
{
	const char *writer = NULL;
	struct children kids;
	uint32_t ranks = 0;
	int64_t mtime = 0;
	int r = 0;

	find_children(files, n, &kids);
	for (size_t i = 0; i < kids.n && r >= 0; i++) {
		struct child *c = &kids.at[i];
		struct dcp_source src = {
			.store = store, .files = files, .nfiles = n, .dir = c->dir
		};
		struct dcp_meta m = { 0 };
		char own[CHILD_NAME_MAX + 2];
		bool again = false;
		struct dcp_found found;
		for (size_t k = 0; k < i; k++)
			again = again || kids.at[k].container == c->container ||
			        (kids.at[k].container && c->container &&
			         strcmp(kids.at[k].container, c->container) == 0);
		r = dcp_read_dir(&m, store, files, n, c->dir, &found, err);
		if (r >= 0) {
			if (again) { /* a second model: under its directory's name */
				memcpy(own, c->dir, strlen(c->dir));
				own[strlen(c->dir) - 1] = '\0';
				src.prefix = own;
			} else if (c->container && !has_own_container(&m, c->container)) {
				src.prefix = c->container;
			}
			r = dcp_lower(&m, &src, b, err);
			if (r >= 0)
				r = dcp_warn_unread(b, c->dir, &found);
			writer = dcp_writer(&m.facts);
			ranks = SF_MAX(ranks, dcp_count_ranks(&m));
			mtime = SF_MAX(mtime, found.mtime_ns);
		}
		dcp_meta_release(&m);
	}
	if (r >= 0)
		r = warn_uncommitted(files, n, &kids, b);
	if (r >= 0)
		sf_ckpt_builder_facts(b, writer, NULL, dcp_step_of(store->source), ranks, mtime);
	return r;
}
