#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "format/format.h"
#include "format/format_dir.h"
#include "format/format_unread.h"
#include "format/rankfiles/rankfiles_lower.h"
#include "format/rankfiles/rankfiles_set.h"
#include "format/torch/torch_lower.h"
#include "store/source.h"

/*
 * A file of torch.save for each rank, with its parts of DTensors or ShardedTensors. Source:
 * volcengine/verl verl/utils/checkpoint/fsdp_checkpoint_manager.py, 0.4; huggingface/accelerate
 * utils/fsdp_utils.py (LOCAL_STATE_DICT).
 */

#define CONFIG "fsdp_config.json"
#define CONFIG_MAX (UINT64_C(64) << 10)

/* One kind of files, opened and joined. */
struct opened {
	const struct rankfiles_set *set;
	struct sf_torch_part *part; /* by rank; those that are not listed have r = -ENOENT */
	struct rankfiles_join join;
	char group[64];
};
SF_VEC(openeds, struct opened);

struct load {
	struct sf_store *store;
	struct sf_ckpt_builder *b;
	struct sf_format_dir src;
	struct sf_format_found found;
	struct rankfiles_sets sets;
	struct openeds kinds;
	struct sf_error *err;
};

static bool is_kind(const struct rankfiles_set *s, const char *kind)
{
	return strlen(kind) == s->kind_len && memcmp(kind, s->kind, s->kind_len) == 0;
}

static int rankfiles_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                           struct sf_error *err)
{
	struct rankfiles_name name;
	int sure = 0;

	(void)err;
	/* of a server that does not list: it says how many there are, so what they are called */
	if (store->ops->look && sf_format_listed(files, n, CONFIG))
		sure = 20;
	for (size_t i = 0; i < n; i++) {
		if (!rankfiles_name(files[i].name, &name))
			continue;
		sure = SF_MAX(sure, name.world ? 55 : 42);
	}
	return sure;
}

/* world_size of fsdp_config.json; 0: it does not say. */
static uint32_t config_world(struct load *l)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	const struct sf_objinfo *f = sf_format_listed(l->src.files, l->src.nfiles, CONFIG);
	struct sf_json *json = NULL;
	SF_FREE uint8_t *text = NULL;
	uint64_t len, world = 0;

	if (!f || l->store->ops->open(l->store, CONFIG, f, &src, NULL) < 0 ||
	    sf_source_read_all(src, CONFIG_MAX, SF_FETCH_METADATA, &text, &len, NULL) < 0 ||
	    sf_json_parse((const char *)text, (size_t)len, &json, NULL) < 0)
		return 0;
	if (sf_json_get_u64(sf_json_root(json), "world_size", &world, NULL) < 0)
		world = 0;
	sf_json_free(json);
	return world <= RANKFILES_WORLD_MAX ? (uint32_t)world : 0;
}

/* Of a store that cannot list: the names of all ranks follow from one, or from the config. */
static int find_others(struct load *l)
{
	static const char *const kind[] = { "model", "optim", "extra_state" };
	struct rankfiles_name name;
	SF_FREE const char **at = NULL;
	struct sf_arena arena = { 0 };
	uint32_t world = config_world(l);
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < l->src.nfiles && !world; i++)
		if (rankfiles_name(l->src.files[i].name, &name))
			world = name.world;
	if (!world)
		return 0;
	at = sf_alloc_array((size_t)world * SF_ARRAY_LEN(kind), sizeof(*at));
	for (uint32_t i = 0; at && i < world && r >= 0; i++)
		for (size_t k = 0; k < SF_ARRAY_LEN(kind) && r >= 0; k++) {
			char text[80];
			int len = snprintf(text, sizeof(text),
			                   "%s_world_size_%" PRIu32 "_rank_%" PRIu32 ".pt", kind[k],
			                   world, i);
			at[n] = sf_arena_strdup(&arena, text, (size_t)len);
			r = at[n++] ? 0 : -ENOMEM;
		}
	if (!at || r < 0)
		r = sf_fail(l->err, -ENOMEM, "no memory for the names of %u ranks", world);
	else
		r = sf_format_find(&l->src, at, n, l->b, &l->found, l->err);
	sf_arena_release(&arena);
	return r;
}

/* ---- files ---- */

static int open_kind(struct load *l, struct opened *o)
{
	const struct rankfiles_set *s = o->set;
	SF_FREE struct sf_torch_part *there = sf_alloc_array(s->have, sizeof(*there));
	uint32_t k = 0;
	int r;

	o->part = sf_alloc_array(s->world, sizeof(*o->part));
	if (!there || !o->part)
		return sf_fail(l->err, -ENOMEM, "no memory for the files of %u ranks", s->world);
	for (uint32_t i = 0; i < s->world; i++) {
		o->part[i] = (struct sf_torch_part){ .r = -ENOENT, .place = SF_NONE };
		if (s->file[i])
			there[k++].file = s->file[i];
	}
	r = sf_torch_parts_open(l->store, there, s->have, 0, l->err);
	if (r < 0)
		return r;
	k = 0;
	for (uint32_t i = 0; i < s->world; i++)
		if (s->file[i])
			o->part[i] = there[k++];
	return 0;
}

static bool is_malformed(int code)
{
	return code == -EBADMSG || code == -ENOTSUP || code == -E2BIG;
}

/* What cannot be read costs its parts; a store that fails, the load. */
static int check_kind(struct load *l, struct opened *o)
{
	const struct rankfiles_set *s = o->set;
	const struct sf_torch_part *bad = NULL;
	uint32_t good = 0;
	int r = 0;

	for (uint32_t i = 0; i < s->world && r >= 0; i++) {
		const struct sf_torch_part *p = &o->part[i];
		good += p->r == 0;
		if (p->r == 0) /* it was read, though all it has may be another rank's, too */
			r = sf_torch_part_place(&o->part[i], l->b, l->err);
		if (p->r == 0 || !s->file[i])
			continue;
		bad = p;
		if (!is_malformed(p->r))
			return sf_fail(l->err, p->r, "%s", p->err.msg);
		r = sf_ckpt_builder_warn(l->b, NULL, "unreadable-file",
		                         "what rank %" PRIu32 " has is left out: %s", i,
		                         p->err.msg);
	}
	if (r >= 0 && !good && bad)
		return sf_fail(l->err, bad->r, "no file of a rank can be read: %s", bad->err.msg);
	if (r >= 0 && s->have < s->world)
		r = sf_ckpt_builder_warn(l->b, NULL, "missing-file",
		                         "%.*s_world_size_%" PRIu32 "_rank_%" PRIu32
		                         ".pt: the file of rank %" PRIu32 " is missing: %" PRIu32
		                         " of %" PRIu32 " are there",
		                         (int)SF_MIN(s->kind_len, (size_t)60), s->kind, s->world,
		                         s->absent, s->absent, s->have, s->world);
	return r;
}

static int join_kind(struct load *l, const struct rankfiles_set *s)
{
	struct opened *o;
	size_t len = SF_MIN(s->kind_len, sizeof(o->group) - 1);
	int r;

	if (openeds_push(&l->kinds, (struct opened){ .set = s }) < 0)
		return sf_fail(l->err, -ENOMEM, "no memory for files of a further kind");
	o = &l->kinds.at[l->kinds.n - 1];
	memcpy(o->group, is_kind(s, "extra_state") ? "extra" : s->kind,
	       is_kind(s, "extra_state") ? 5 : len);
	r = open_kind(l, o);
	if (r >= 0)
		r = check_kind(l, o);
	if (r >= 0 && !is_kind(s, "extra_state"))
		r = rankfiles_join(&o->join, o->part, s->world, l->err);
	return r;
}

/* ---- keys ---- */

/* Random states and the like are each rank's own. */
static int lower_extra(struct load *l, const struct opened *o)
{
	int r = 0;

	for (uint32_t i = 0; i < o->set->world && r >= 0; i++) {
		struct sf_torch_ties ties = { 0 };
		char rank[24];
		struct sf_path_elem prefix[2] = { { o->group, (uint32_t)strlen(o->group),
			                            SF_PATH_TEXT },
			                          { rank, 0, SF_PATH_TEXT } };
		const struct sf_torch_lower lower = { .b = l->b,
			                              .part = &o->part[i],
			                              .prefix = prefix,
			                              .nprefix = 2,
			                              .ties = &ties };
		prefix[1].len = (uint32_t)snprintf(rank, sizeof(rank), "rank%" PRIu32, i);
		if (o->part[i].r == 0)
			r = sf_torch_lower(&lower, o->part[i].archive.root, l->err);
		sf_torch_ties_release(&ties);
	}
	return r;
}

static int warn_join(struct load *l, const struct opened *o)
{
	int r = 0;

	if (o->join.odd)
		r = sf_ckpt_builder_warn(l->b, NULL, "unread-value",
		                         "%s: %" PRIu64
		                         " values that have no name, or hold themselves: not shown",
		                         o->group, o->join.odd);
	if (r >= 0 && o->join.twice)
		r = sf_ckpt_builder_warn(l->b, NULL, "same-name",
		                         "%s: %" PRIu64
		                         " values whose names are there twice: the first is shown",
		                         o->group, o->join.twice);
	return r;
}

/* Parameters of FSDP's first version, saved as they lie: flat, and without names. */
static int warn_flat(struct load *l, const struct opened *o)
{
	for (size_t i = 0; i < o->join.keys.n; i++) {
		const struct rankfiles_key *k = &o->join.keys.at[i];
		if (k->len >= 11 && memcmp(k->name + k->len - 11, "_flat_param", 11) == 0)
			return sf_ckpt_builder_warn(
				l->b, NULL, "plain-reading",
				"flattened parameters (_flat_param): which parameter lies where in "
				"them only the model's code knows");
	}
	return 0;
}

static int lower_kinds(struct load *l)
{
	SF_CLEANUP(rankfiles_names_release) struct rankfiles_names names = { 0 };
	struct opened *model = NULL, *optim = NULL;
	int r = 0;

	for (size_t i = 0; i < l->kinds.n; i++) {
		if (is_kind(l->kinds.at[i].set, "model"))
			model = &l->kinds.at[i];
		if (is_kind(l->kinds.at[i].set, "optim"))
			optim = &l->kinds.at[i];
	}
	if (model && optim)
		r = rankfiles_match(&model->join, &optim->join, &names, l->err);
	for (size_t i = 0; i < l->kinds.n && r >= 0; i++) {
		struct opened *o = &l->kinds.at[i];
		if (is_kind(o->set, "extra_state")) {
			r = lower_extra(l, o);
			continue;
		}
		r = rankfiles_lower(l->b, o->group, &o->join, o == optim ? &names : NULL, l->err);
		if (r >= 0)
			r = warn_join(l, o);
		if (r >= 0)
			r = warn_flat(l, o);
	}
	return r;
}

static int load_all(struct load *l)
{
	const struct sf_objinfo *other = NULL;
	uint32_t said;
	int64_t mtime = 0;
	int r = sf_ckpt_builder_listing(l->b, l->src.files, l->src.nfiles, l->err);

	if (r >= 0 && l->store->ops->look)
		r = find_others(l);
	if (r >= 0)
		r = rankfiles_find(l->src.files, l->src.nfiles, &l->sets, &other, l->err);
	if (r < 0)
		return sf_fail_ctx(l->err, r, "'%s'", l->store->source);
	said = config_world(l);
	if (said && said != l->sets.at[0].world)
		r = sf_ckpt_builder_warn(l->b, NULL, "ranks-disagree",
		                         CONFIG " says %" PRIu32
		                                " ranks, the files' names say %" PRIu32,
		                         said, l->sets.at[0].world);
	if (r >= 0 && other)
		r = sf_ckpt_builder_warn(l->b, NULL, "ranks-disagree",
		                         "'%s' is of another number of ranks than %" PRIu32
		                         ": not read",
		                         other->name, l->sets.at[0].world);
	for (size_t i = 0; i < l->sets.n && r >= 0; i++)
		r = join_kind(l, &l->sets.at[i]);
	if (r >= 0)
		r = lower_kinds(l);
	if (r >= 0)
		r = sf_unread_warn(l->b, l->src.files, l->src.nfiles);
	for (size_t i = 0; i < l->src.nfiles; i++)
		mtime = SF_MAX(mtime, l->src.files[i].version.mtime_ns);
	if (r >= 0)
		sf_ckpt_builder_facts(l->b, NULL, NULL, sf_format_step(l->store->source),
		                      l->sets.at[0].world, mtime);
	return r;
}

static void release(struct load *l)
{
	for (size_t i = 0; i < l->kinds.n; i++) {
		struct opened *o = &l->kinds.at[i];
		rankfiles_join_release(&o->join);
		if (o->part)
			sf_torch_parts_release(o->part, o->set->world);
		free(o->part);
	}
	openeds_release(&l->kinds);
	rankfiles_release(&l->sets);
	sf_format_found_release(&l->found);
}

static int rankfiles_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                          const struct sf_load_options *opt, struct sf_ckpt **ret,
                          struct sf_error *err)
{
	struct load l = { .store = store,
		          .src = { .store = store, .files = files, .nfiles = n, .dir = "" },
		          .err = err };
	int r = sf_ckpt_builder_new("rank-files", store->source, &l.b, err);

	(void)opt;
	if (r >= 0)
		r = load_all(&l);
	release(&l); /* before finish: values and columns need not be there together */
	if (r >= 0)
		r = sf_ckpt_builder_finish(l.b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(l.b);
	return r;
}

static int rankfiles_missing(const struct sf_objinfo *files, size_t n, char *why, size_t size)
{
	struct rankfiles_sets sets = { 0 };
	const struct sf_objinfo *other;
	struct sf_error err = SF_ERROR_INIT;
	int r = rankfiles_find(files, n, &sets, &other, &err);

	rankfiles_release(&sets);
	if (r != -ENOENT)
		return 0;
	snprintf(why, size, "%.500s", err.msg);
	return 1;
}

static const char *const also[] = { "verl", NULL };

/* One of them, or the config, says how many ranks there are. */
static const char *const names[] = { CONFIG,
	                             "model_world_size_1_rank_0.pt",
	                             "model_world_size_2_rank_0.pt",
	                             "model_world_size_4_rank_0.pt",
	                             "model_world_size_8_rank_0.pt",
	                             NULL };

const struct sf_format sf_format_rankfiles = {
	.name = "rank-files",
	.also = also,
	.about = "a file per rank, with its parts of DTensors or ShardedTensors",
	.marker = "model_world_size_N_rank_R.pt",
	.sought = "model_world_size_N_rank_0.pt",
	.names = names,
	.missing = rankfiles_missing,
	.probe = rankfiles_probe,
	.load = rankfiles_load,
};
