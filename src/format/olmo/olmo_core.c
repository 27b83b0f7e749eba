#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "format/dcp/dcp_composite.h"
#include "format/olmo/olmo.h"
#include "store/source.h"

#define MARKS ".metadata.json"
#define MARKS_MAX 65536

/* What wrote it, and whether the trainer will delete it. */
static int read_marks(struct olmo_load *l, char *writer, size_t size)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	const struct sf_objinfo *f = sf_format_listed(l->files, l->nfiles, MARKS);
	SF_FREE uint8_t *text = NULL;
	struct sf_error why = SF_ERROR_INIT;
	struct sf_json *json = NULL;
	const char *version;
	bool ephemeral = false;
	uint64_t len;
	int r;

	if (!f)
		return sf_ckpt_builder_warn(l->b, NULL, "no-mark",
		                            "no " MARKS ": written by OLMo-core 1, or a save or "
		                            "a deletion is under way");
	r = l->store->ops->open(l->store, MARKS, f, &src, &why);
	if (r >= 0)
		r = sf_source_read_all(src, MARKS_MAX, SF_FETCH_METADATA, &text, &len, &why);
	if (r >= 0)
		r = sf_json_parse((const char *)text, (size_t)len, &json, &why);
	if (r == -EBADMSG || r == -E2BIG)
		return sf_ckpt_builder_warn(l->b, NULL, "unreadable-file", MARKS ": %s", why.msg);
	if (r < 0)
		return sf_fail(l->err, r, MARKS ": %s", why.msg);
	if (sf_json_get_str(sf_json_root(json), "version", &version, NULL) >= 0)
		snprintf(writer, size, "OLMo-core %.60s", version);
	sf_json_is_bool(sf_json_get(sf_json_root(json), "ephemeral"), &ephemeral);
	sf_json_free(json);
	return ephemeral ? sf_ckpt_builder_warn(l->b, NULL, "ephemeral",
	                                        "an ephemeral checkpoint: the run that wrote it "
	                                        "deletes it after a while")
	                 : 0;
}

static int by_rank(const void *a, const void *b)
{
	const int64_t x = olmo_rank_of((*(const struct sf_objinfo *const *)a)->name, "train/"),
		      y = olmo_rank_of((*(const struct sf_objinfo *const *)b)->name, "train/");

	return (x > y) - (x < y);
}

static int add_one(struct olmo_load *l, const struct sf_objinfo *f)
{
	char key[40], rank[24];
	struct sf_path_elem path[2] = { { "train", 5, SF_PATH_TEXT }, { rank, 0, SF_PATH_TEXT } };
	uint32_t place, object;
	bool tensor;
	int r;

	path[1].len = (uint32_t)snprintf(rank, sizeof(rank), "rank%" PRId64,
	                                 olmo_rank_of(f->name, "train/"));
	int len = snprintf(key, sizeof(key), "train.%s", rank);
	if (sf_ckpt_builder_find(l->b, key, (size_t)len, &tensor) != SF_NONE)
		return 0;
	r = sf_ckpt_builder_place(l->b, f->name, strlen(f->name), SF_ITEM_TORCH, SF_CODEC_NONE,
	                          &place, l->err);
	if (r >= 0)
		r = sf_ckpt_builder_object(l->b, key, (size_t)len, &object, l->err);
	if (r < 0)
		return r;
	sf_ckpt_builder_set_object(l->b, object, place, 0, f->size);
	return sf_ckpt_builder_path(l->b, key, (size_t)len, path, 2, l->err);
}

int olmo_add_train(struct olmo_load *l)
{
	SF_FREE const struct sf_objinfo **at = sf_alloc_array(l->nfiles, sizeof(*at));
	size_t n = 0;
	int r = 0;

	if (!at)
		return sf_fail(l->err, -ENOMEM, "no memory for %zu files", l->nfiles);
	for (size_t i = 0; i < l->nfiles; i++)
		if (olmo_rank_of(l->files[i].name, "train/") >= 0)
			at[n++] = &l->files[i];
	if (!n)
		return 0;
	qsort(at, n, sizeof(*at), by_rank);
	sf_ckpt_builder_beside(l->b);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = add_one(l, at[i]);
	return r < 0 ? r : 0;
}

static bool ends(const char *name, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len > n && memcmp(name + len - n, suffix, n) == 0;
}

/*
 * Runs of OLMoDDPTrainModule have neither model. nor optim. in front, but FQN.main beside
 * FQN.exp_avg: the weights and the optimizer's state of them, flat. Source: allenai/OLMo-core
 * optim/ddp (OLMoDDPOptimizer.state_dict), 3.0.
 */
static int group_direct(struct olmo_load *l)
{
	static const char *const states[] = { ".exp_avg", ".exp_avg_sq", ".step",
		                              ".muon_momentum" };
	bool direct = false;
	const char *name;
	size_t len;
	int r = 0;

	for (uint32_t i = 0; (name = sf_ckpt_builder_key_at(l->b, i, &len)); i++) {
		if (len > 6 && memcmp(name, "model.", 6) == 0)
			return 0;
		direct = direct || ends(name, len, ".main");
	}
	for (uint32_t i = 0; direct && r >= 0 && (name = sf_ckpt_builder_key_at(l->b, i, &len));
	     i++) {
		bool model = ends(name, len, ".main") || strncmp(name, "model_buffer.", 13) == 0;
		bool optim = false;
		for (size_t k = 0; k < SF_ARRAY_LEN(states) && !model; k++)
			optim = optim || ends(name, len, states[k]);
		r = sf_ckpt_builder_group(l->b, name, len,
		                          model   ? "model"
		                          : optim ? "optim"
		                                  : "other",
		                          model   ? SF_ROLE_MODEL
		                          : optim ? SF_ROLE_OPTIM
		                                  : SF_ROLE_OTHER,
		                          0, l->err);
	}
	return r < 0 ? r : 0;
}

int olmo_load_core(struct olmo_load *l, char *writer, size_t size)
{
	int r = dcp_load_composite(l->store, l->files, l->nfiles, l->b, l->err);

	if (r >= 0)
		r = group_direct(l);
	if (r >= 0)
		r = read_marks(l, writer, size);
	return r < 0 ? r : olmo_add_train(l);
}
