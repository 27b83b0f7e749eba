#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_lower.h"
#include "format/format.h"
#include "format/format_dir.h"
#include "format/format_unread.h"

/*
 * DeepSpeed's checkpoints, one step's directory. Source: deepspeedai/DeepSpeed runtime/engine.py (_save_checkpoint
 * and others), runtime/zero/, utils/zero_to_fp32.py, 0.3 to 0.19.
 */

#define RANKS_MAX (1u << 20)

struct load {
	struct sf_store *store;
	struct sf_arena arena; /* of what is listed further down, and names */
	struct sf_format_found found;
	struct sf_objinfos all;
	struct sf_ckpt_builder *b;
	const struct sf_objinfo *files;
	size_t n;
	struct ds_set set;
	struct ds_slice *slice;
	struct ds_table *table;
	size_t nslices;
	struct sf_error *err;
};

static int deepspeed_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                           struct sf_error *err)
{
	struct ds_set set;
	int sure = 0, r = ds_set_find(files, n, &set, err);

	(void)store;
	for (size_t i = 0; i < set.files.n && r >= 0; i++)
		if (set.files.at[i].name.kind != DS_COMPOSER)
			sure = 56;
	ds_set_release(&set);
	return r == -EBADMSG ? 56 : r < 0 ? r : sure;
}

/* Model-parallel ranks that have files, ascending. */
static size_t find_slices(const struct ds_set *set, uint32_t *ret, size_t most)
{
	size_t n = 0;

	for (size_t i = 0; i < set->files.n; i++) {
		const struct ds_name *name = &set->files.at[i].name;
		size_t k = 0;
		if (name->kind != DS_MODEL && name->kind != DS_ZERO_MODEL && name->kind != DS_OPTIM)
			continue;
		while (k < n && ret[k] < name->mp)
			k++;
		if (k < n && ret[k] == name->mp)
			continue;
		if (n == most)
			return n + 1;
		memmove(ret + k + 1, ret + k, (n - k) * sizeof(*ret));
		ret[k] = name->mp;
		n++;
	}
	return n;
}

/* Files of zero/NAME/ beside the model states. */
static int open_universal(struct load *l)
{
	int r;

	l->slice = calloc(1, sizeof(*l->slice));
	l->table = calloc(1, sizeof(*l->table));
	if (!l->slice || !l->table)
		return sf_fail(l->err, -ENOMEM, "no memory for a universal checkpoint");
	l->nslices = 1;
	l->slice->b = l->b;
	r = ds_universal_open(l->slice, l->store, &l->set, l->err);
	return r < 0 ? r : ds_table_make(l->table, l->slice, l->err);
}

/* Partitions alone say neither names nor shapes. */
static int check_model(struct load *l, uint32_t mp)
{
	size_t n;

	if (ds_set_of(&l->set, DS_MODEL, mp, &n) || ds_set_of(&l->set, DS_ZERO_MODEL, mp, &n))
		return 0;
	return sf_fail(
		l->err, -ENOENT,
		"not complete: partitions, but no model states of model-parallel rank %" PRIu32
		" (mp_rank_%02" PRIu32 "_model_states.pt)",
		mp, mp);
}

static int open_slices(struct load *l)
{
	uint32_t mp[1024];
	size_t n = find_slices(&l->set, mp, SF_ARRAY_LEN(mp));
	size_t nuniversal;
	int r = 0;

	if (ds_set_kind(&l->set, DS_UNIVERSAL, &nuniversal))
		return open_universal(l);
	if (n > SF_ARRAY_LEN(mp))
		return sf_fail(l->err, -E2BIG, "over %zu model-parallel ranks", SF_ARRAY_LEN(mp));
	l->slice = calloc(SF_MAX(n, (size_t)1), sizeof(*l->slice));
	l->table = calloc(SF_MAX(n, (size_t)1), sizeof(*l->table));
	if (!l->slice || !l->table)
		return sf_fail(l->err, -ENOMEM, "no memory for %zu ranks", n);
	l->nslices = n;
	for (size_t i = 0; i < n && r >= 0; i++) {
		if (mp[i] != i)
			return sf_fail(l->err, -ENOENT,
			               "not complete: no file of model-parallel rank %zu is there",
			               i);
		l->slice[i].b = l->b;
		r = check_model(l, mp[i]);
		if (r >= 0)
			r = ds_slice_open(&l->slice[i], l->store, &l->set, mp[i], l->err);
		if (r >= 0)
			r = ds_slice_read(&l->slice[i], l->err);
		if (r >= 0)
			r = ds_table_make(&l->table[i], &l->slice[i], l->err);
	}
	return r < 0 ? r : ds_tables_compare(l->table, n, l->err);
}

static int lower_slice(struct load *l, size_t i, uint64_t *several)
{
	struct ds_lowering w = { .b = l->b, .s = &l->slice[i], .t = &l->table[i], .err = l->err };
	int r = ds_lower_fp32(&w);

	if (r >= 0)
		r = ds_lower_module(&w);
	if (r >= 0)
		r = ds_lower_optim(&w);
	if (r >= 0 && !w.s->stage && w.s->nmodel && !w.t->elsewhere)
		r = ds_lower_plain_optim(&w);
	if (r >= 0 && i == 0)
		r = ds_lower_rest(&w);
	*several += w.several;
	ds_lowering_release(&w);
	return r;
}

/* What stands in front of the first rank's number, and behind it. */
static const char *name_of_rank(struct sf_arena *arena, const char *first, uint32_t rank)
{
	const char *at = strstr(first, "zero_pp_rank_0");
	char text[160];
	int len;

	if (!at)
		return NULL;
	at += 13;
	len = snprintf(text, sizeof(text), "%.*s%" PRIu32 "%s", (int)(at - first), first, rank,
	               at + 1);
	return len < (int)sizeof(text) ? sf_arena_strdup(arena, text, (size_t)len) : NULL;
}

/* Of a store that cannot list: the first rank's partitions say how many ranks there are. */
static int find_others(struct load *l)
{
	static const enum ds_kind kinds[] = { DS_OPTIM, DS_ZERO_MODEL };
	struct sf_format_dir dir = {
		.store = l->store, .files = l->files, .nfiles = l->n, .dir = ""
	};
	struct sf_torch_part part;
	SF_FREE const char **name = NULL;
	uint64_t world;
	size_t n = 0, k, have;
	const struct ds_file *first = ds_set_kind(&l->set, DS_OPTIM, &have);
	int r;

	if (!first || first->name.rank != 0)
		return 0;
	part = (struct sf_torch_part){ .file = first->file };
	r = sf_torch_parts_open(l->store, &part, 1, 0, l->err);
	world = r >= 0 && part.r >= 0 ? ds_partitions_of(&part) : 0;
	sf_torch_parts_release(&part, 1);
	if (r < 0 || world < 2 || world > RANKS_MAX)
		return r;
	name = sf_alloc_array(2 * world, sizeof(*name));
	for (size_t i = 0; name && i < SF_ARRAY_LEN(kinds); i++) {
		first = ds_set_kind(&l->set, kinds[i], &k);
		for (uint32_t rank = 0; first && rank < world; rank++)
			if ((name[n] = name_of_rank(&l->arena, first->file->name, rank)))
				n++;
	}
	if (!name)
		return sf_fail(l->err, -ENOMEM, "no memory for the names of %zu ranks",
		               (size_t)world);
	r = sf_format_find(&dir, name, n, l->b, &l->found, l->err);
	l->files = dir.files;
	l->n = dir.nfiles;
	ds_set_release(&l->set);
	return r < 0 ? r : ds_set_find(l->files, l->n, &l->set, l->err);
}

static int add_file(void *arg, const struct sf_objinfo *info)
{
	struct load *l = arg;

	return info->size == UINT64_MAX ? 0 : sf_objinfos_keep(&l->all, &l->arena, info);
}

/* A universal checkpoint's files lie deeper than a listing goes. */
static int list_universal(struct load *l)
{
	bool there = false;
	int r = 0;

	for (size_t i = 0; i < l->n && !there; i++)
		there = strncmp(l->files[i].name, "zero/", 5) == 0;
	if (!there || l->store->ops->look)
		return 0;
	for (size_t i = 0; i < l->n && r >= 0; i++)
		if (strncmp(l->files[i].name, "zero/", 5) != 0)
			r = sf_objinfos_push(&l->all, l->files[i]);
	if (r >= 0)
		r = l->store->ops->list(l->store, "zero", 1, add_file, l, l->err);
	if (r < 0)
		return r == -ENOMEM ? sf_fail(l->err, r, "no memory for %zu files", l->all.n) : r;
	qsort(l->all.at, l->all.n, sizeof(*l->all.at), sf_objinfo_compare);
	l->files = l->all.at;
	l->n = l->all.n;
	return 0;
}

static int load_all(struct load *l)
{
	uint64_t several = 0;
	int r = list_universal(l);

	if (r >= 0)
		r = sf_ckpt_builder_listing(l->b, l->files, l->n, l->err);
	if (r >= 0)
		r = ds_set_find(l->files, l->n, &l->set, l->err);
	if (r >= 0 && l->store->ops->look)
		r = find_others(l);
	if (r >= 0)
		r = open_slices(l);
	for (size_t i = 0; i < l->nslices && r >= 0; i++)
		r = lower_slice(l, i, &several);
	if (r >= 0)
		r = ds_lower_others(l->b, l->store, &l->set, l->err);
	if (r < 0)
		return sf_fail_ctx(l->err, r, "'%s'", l->store->source);
	if (several)
		r = sf_ckpt_builder_warn(
			l->b, NULL, "plain-reading",
			"weights that several of %zu model-parallel ranks have are parts of one, "
			"or "
			"copies; which, and along which dimension, the files do not say: they are "
			"below rank.mp_rank_MM",
			l->nslices);
	if (r >= 0)
		r = sf_unread_warn(l->b, l->files, l->n);
	return r;
}

static void set_facts(struct load *l)
{
	const struct ds_slice *s = l->nslices ? &l->slice[0] : NULL;
	const struct sf_pv *root = s && s->nmodel ? s->model[0].archive.root : NULL,
			   *version = ds_get(root, "ds_version");
	uint64_t step = 0;
	char writer[80] = "DeepSpeed";
	int64_t mtime = 0, at = sf_format_step(l->store->source);

	if (version && version->kind == SF_PV_STR)
		snprintf(writer, sizeof(writer), "DeepSpeed %.40s", version->str.at);
	if (ds_get(root, "global_steps") && sf_pv_u64(ds_get(root, "global_steps"), &step) &&
	    step <= INT64_MAX)
		at = (int64_t)step;
	for (size_t i = 0; i < l->set.files.n; i++)
		mtime = SF_MAX(mtime, l->set.files.at[i].file->version.mtime_ns);
	sf_ckpt_builder_facts(l->b, writer, NULL, at,
	                      s ? (uint32_t)(SF_MAX(s->noptim, (size_t)1) * l->nslices) : 0, mtime);
}

static void release(struct load *l)
{
	for (size_t i = 0; i < l->nslices; i++) {
		ds_table_release(&l->table[i]);
		ds_slice_release(&l->slice[i]);
	}
	free(l->slice);
	free(l->table);
	ds_set_release(&l->set);
	sf_objinfos_release(&l->all);
	sf_format_found_release(&l->found);
	sf_arena_release(&l->arena);
}

static int deepspeed_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                          const struct sf_load_options *opt, struct sf_ckpt **ret,
                          struct sf_error *err)
{
	struct load l = { .store = store, .files = files, .n = n, .err = err };
	int r = sf_ckpt_builder_new("deepspeed", store->source, &l.b, err);

	(void)opt;
	if (r >= 0)
		r = load_all(&l);
	if (r >= 0)
		set_facts(&l);
	release(&l); /* before finish: values and columns need not be there together */
	if (r >= 0)
		r = sf_ckpt_builder_finish(l.b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(l.b);
	return r;
}

/* Ranks are numbered from 0 without a gap; how many there are the files' names do not say. */
static bool has_gap(const struct ds_set *set, enum ds_kind kind)
{
	size_t n, ranks = 0, mps = 0;
	const struct ds_file *f = ds_set_kind(set, kind, &n);

	for (size_t i = 0; f && i < n; i++) {
		ranks = SF_MAX(ranks, (size_t)f[i].name.rank + 1);
		mps = SF_MAX(mps, (size_t)f[i].name.mp + 1);
	}
	return f && (n % mps || n / mps != ranks);
}

static int deepspeed_missing(const struct sf_objinfo *files, size_t n, char *why, size_t size)
{
	struct ds_set set;
	size_t optim, model, zero;
	int ret = 0;

	if (ds_set_find(files, n, &set, NULL) < 0)
		return 0;
	ds_set_kind(&set, DS_OPTIM, &optim);
	ds_set_kind(&set, DS_MODEL, &model);
	ds_set_kind(&set, DS_ZERO_MODEL, &zero);
	if (optim && !model && !zero) {
		snprintf(why, size, "partitions of %zu ranks, but no model states", optim);
		ret = 1;
	} else if (has_gap(&set, DS_OPTIM) || has_gap(&set, DS_ZERO_MODEL)) {
		snprintf(why, size,
		         "the ranks' files have gaps: %zu of partitions, %zu of model states",
		         optim, model + zero);
		ret = 1;
	}
	ds_set_release(&set);
	return ret;
}

static const char *const names[] = { "mp_rank_00_model_states.pt",
	                             "zero_pp_rank_0_mp_rank_00_model_states.pt",
	                             "zero_pp_rank_0_mp_rank_00_optim_states.pt",
	                             "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", NULL };

const struct sf_format sf_format_deepspeed = {
	.name = "deepspeed",
	.about = "DeepSpeed: ZeRO 0 to 3, universal",
	.marker = "*_model_states.pt",
	.sought = "mp_rank_00_model_states.pt",
	.names = names,
	.missing = deepspeed_missing,
	.probe = deepspeed_probe,
	.load = deepspeed_load,
};
