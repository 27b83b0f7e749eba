#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/format.h"
#include "format/format_unread.h"
#include "format/olmo/olmo.h"
#include "store/source.h"

static bool listed(const struct sf_objinfo *files, size_t n, const char *name)
{
	return sf_format_listed(files, n, name) != NULL;
}

enum olmo_layout olmo_layout(const struct sf_objinfo *files, size_t n)
{
	bool train = false, legacy = false, local = false, other = false, flat = false;

	for (size_t i = 0; i < n; i++) {
		const char *name = files[i].name;
		train = train || olmo_rank_of(name, "train/") >= 0;
		legacy = legacy || olmo_rank_of(name, "") >= 0;
		local = local || olmo_rank_of(name, "model/") >= 0;
		flat = flat || strncmp(name, "model/rank_", 11) == 0;
		/* beside one file per rank, and nothing else of torch's */
		other = other || (!strchr(name, '/') && sf_has_suffix(name, ".pt") &&
		                  olmo_rank_of(name, "") < 0);
	}
	if (listed(files, n, "model_and_optim/.metadata") &&
	    (train || listed(files, n, ".metadata.json")))
		return OLMO_CORE;
	if (local && !other)
		return OLMO_LOCAL;
	if (flat && listed(files, n, "model/metadata.json"))
		return OLMO_FLAT;
	return legacy && !other ? OLMO_LEGACY : OLMO_NONE;
}

static int probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                 struct sf_error *err)
{
	static const int sure[] = { [OLMO_NONE] = 0,
		                    [OLMO_CORE] = 70,
		                    [OLMO_LEGACY] = 44,
		                    [OLMO_LOCAL] = 52,
		                    [OLMO_FLAT] = 60 };

	(void)store, (void)err;
	return sure[olmo_layout(files, n)];
}

static int64_t newest(const struct olmo_load *l)
{
	int64_t mtime = 0;

	for (size_t i = 0; i < l->nfiles; i++)
		mtime = SF_MAX(mtime, l->files[i].version.mtime_ns);
	return mtime;
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

static int load_keys(struct olmo_load *l, enum olmo_layout layout)
{
	static const char *const wrote[] = { [OLMO_LEGACY] = "OLMo (torch_legacy)",
		                             [OLMO_LOCAL] = "OLMo (local)",
		                             [OLMO_FLAT] = "OLMo (olmo_core)" };
	char writer[80] = "";
	int r;

	switch (layout) {
	case OLMO_CORE:
		r = olmo_load_core(l, writer, sizeof(writer));
		if (r >= 0 && *writer)
			sf_ckpt_builder_writer(l->b, writer);
		return r;
	case OLMO_LEGACY:
		r = olmo_load_legacy(l);
		break;
	case OLMO_LOCAL:
		r = olmo_load_local(l);
		break;
	case OLMO_FLAT:
		r = olmo_load_flat(l);
		break;
	default:
		return sf_fail(l->err, -ENOENT, "'%s' is not a checkpoint of OLMo-core or OLMo",
		               l->store->source);
	}
	if (r >= 0)
		sf_ckpt_builder_facts(l->b, wrote[layout], NULL, sf_format_step(l->store->source),
		                      l->ranks, newest(l));
	return r;
}

static int load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	struct olmo_load l = { .store = store, .files = files, .nfiles = n, .err = err };
	int r = sf_ckpt_builder_new("olmo-core", store->source, &l.b, err);

	(void)opt;
	if (r >= 0)
		r = sf_ckpt_builder_listing(l.b, files, n, err);
	if (r >= 0) {
		sf_ckpt_builder_look(l.b, look_at, store);
		r = load_keys(&l, olmo_layout(files, n));
	}
	if (r >= 0)
		r = sf_unread_warn(l.b, files, n);
	if (r >= 0)
		r = sf_ckpt_builder_finish(l.b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(l.b);
	return r;
}

/* The trainer's state comes first, model_and_optim/.metadata last of what is needed. */
static int unfinished(const struct sf_objinfo *files, size_t n, char *why, size_t size)
{
	for (size_t i = 0; i < n; i++)
		if (olmo_rank_of(files[i].name, "train/") >= 0) {
			snprintf(why, size, "%.300s but no model_and_optim/.metadata",
			         files[i].name);
			return 1;
		}
	return 0;
}

static const char *const also[] = { "olmo", NULL };

static const char *const names[] = {
	"model_and_optim/.metadata",
	".metadata.json",
	"train/rank0.pt",
	"model/rank0.pt",
	"model/metadata.json",
	"rank0.pt",
	NULL,
};

const struct sf_format sf_format_olmo = {
	.name = "olmo-core",
	.also = also,
	.about = "OLMo-core and OLMo checkpoint",
	.marker = "model_and_optim/.metadata",
	.sought = "model_and_optim/.metadata with train/rank0.pt",
	.names = names,
	.unfinished = unfinished,
	.probe = probe,
	.load = load,
};
