#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/megatron/megatron_join.h"
#include "format/torch/torch_lower.h"

/*
 * The legacy format: each model-parallel rank's torch.save of its own state. The parameters are put
 * together (megatron_join.h); what rank 0 has beside them is the common state; all else is each
 * rank's own, under rank.DIR.
 * Source: NVIDIA/Megatron-LM megatron/training/checkpointing.py, 0.16.
 */

#define RANK_NAME 64 /* bytes of rank.mp_rank_00_000_000.rng_state */

/* model, model0, optimizer, rng_state: of a rank's dict, what is not common. */
static bool is_ranks_own(const struct sf_pv *key)
{
	if (key->kind != SF_PV_STR)
		return true;
	return strncmp(key->str.at, "model", 5) == 0
	               ? strspn(key->str.at + 5, "0123456789") == key->str.len - 5
	               : sf_pv_is_str(key, "optimizer") || sf_pv_is_str(key, "rng_state");
}

/* A dict without what is each rank's own; NULL: no memory. */
static struct sf_pv *common_of(const struct sf_pv *root, struct sf_arena *arena)
{
	struct sf_pv *ret = sf_arena_calloc(arena, 1, sizeof(*ret));

	if (!ret)
		return NULL;
	ret->kind = SF_PV_DICT;
	ret->seq.at = sf_arena_calloc(arena, root->seq.n + 1, sizeof(*ret->seq.at));
	for (size_t i = 0; ret->seq.at && i + 1 < root->seq.n; i += 2) {
		if (is_ranks_own(root->seq.at[i]))
			continue;
		ret->seq.at[ret->seq.n++] = root->seq.at[i];
		ret->seq.at[ret->seq.n++] = root->seq.at[i + 1];
	}
	return ret->seq.at ? ret : NULL;
}

static int lower_common(const struct megatron_ranks *ranks, struct sf_ckpt_builder *b,
                        struct megatron_facts *facts, struct sf_error *err)
{
	const struct megatron_rank *first = ranks->at;
	struct sf_pv *root;

	while (!first->model)
		first++;
	root = first->model->archive.root;
	if (root->kind != SF_PV_DICT)
		return sf_fail(err, -EBADMSG, "'%s' holds no dict", first->model->file->name);
	root = common_of(root, &first->model->arena);
	return root ? megatron_common(b, first->model, root, facts, err)
	            : sf_fail(err, -ENOMEM, "no memory for the common state");
}

/* ---- what is each rank's own ---- */

static struct sf_pv *text_of(const char *s, size_t len, struct sf_arena *arena)
{
	struct sf_pv *ret = sf_arena_calloc(arena, 1, sizeof(*ret));

	if (!ret)
		return NULL;
	ret->kind = SF_PV_STR;
	ret->str.at = sf_arena_strdup(arena, s, len);
	ret->str.len = len;
	return ret->str.at ? ret : NULL;
}

/* str() of a tuple of dtypes, which a buffer's dict has for a key; NULL: it is none. */
static struct sf_pv *dtypes_text(const struct sf_pv *key, struct sf_arena *arena)
{
	struct sf_buf text = { .limit = 4096 };
	struct sf_pv *ret = NULL;
	bool plain = key->kind == SF_PV_TUPLE && key->seq.n;

	for (size_t i = 0; plain && i < key->seq.n; i++) {
		const struct sf_pv *g = key->seq.at[i];
		plain = g->kind == SF_PV_GLOBAL && g->global.module->kind == SF_PV_STR &&
		        g->global.name->kind == SF_PV_STR;
		if (plain)
			sf_buf_printf(&text, "%s%s.%s", i ? ", " : "(", g->global.module->str.at,
			              g->global.name->str.at);
	}
	sf_buf_str(&text, ")");
	if (plain && sf_buf_check(&text) >= 0)
		ret = text_of(sf_buf_cstr(&text), text.len, arena);
	sf_buf_release(&text);
	return ret;
}

/* The optimizer's buffers with texts for keys, so that its tensors have names. In place: nobody else
 * has the value. */
static void name_buffers(struct sf_pv *v, struct sf_arena *arena, unsigned depth)
{
	if (depth > 4 || (v->kind != SF_PV_DICT && v->kind != SF_PV_LIST))
		return;
	for (size_t i = 0; i < v->seq.n; i++) {
		const bool is_key = v->kind == SF_PV_DICT && i % 2 == 0;
		struct sf_pv *text = is_key ? dtypes_text(v->seq.at[i], arena) : NULL;
		if (text)
			v->seq.at[i] = text;
		else if (!is_key)
			name_buffers(v->seq.at[i], arena, depth + 1);
	}
}

static int lower_under(struct sf_ckpt_builder *b, const struct megatron_rank *rank,
                       struct sf_torch_part *part, const char *name, struct sf_pv *v,
                       struct sf_error *err)
{
	const struct sf_path_elem prefix[3] = {
		{ "rank", 4, SF_PATH_TEXT },
		{ rank->dir, (uint32_t)strlen(rank->dir), SF_PATH_TEXT },
		{ name, name ? (uint32_t)strlen(name) : 0, SF_PATH_TEXT }
	};
	const struct sf_torch_lower l = {
		.b = b, .part = part, .prefix = prefix, .nprefix = name ? 3 : 2
	};

	return sf_torch_lower(&l, v, err);
}

/* One value: lists of thousands of numbers are no keys. */
static int lower_random(struct sf_ckpt_builder *b, const struct megatron_rank *rank,
                        struct sf_pv *v, struct sf_error *err)
{
	const struct sf_path_elem path[3] = { { "rank", 4, SF_PATH_TEXT },
		                              { rank->dir, (uint32_t)strlen(rank->dir),
		                                SF_PATH_TEXT },
		                              { "rng_state", 9, SF_PATH_TEXT } };
	char key[RANK_NAME];
	const int len = snprintf(key, sizeof(key), "rank.%s.rng_state", rank->dir);
	int r = sf_torch_lower_value(b, rank->model, key, (size_t)len, v, err);

	return r < 0 ? r : sf_ckpt_builder_path(b, key, (size_t)len, path, 3, err);
}

static int lower_rank(struct sf_ckpt_builder *b, const struct megatron_rank *rank,
                      struct sf_error *err)
{
	const struct sf_pv *root = rank->model ? rank->model->archive.root : NULL;
	struct sf_pv *optimizer = root ? sf_pv_get(root, "optimizer") : NULL,
		     *random = root ? sf_pv_get(root, "rng_state") : NULL;
	int r = 0;

	if (optimizer && optimizer->kind != SF_PV_NONE)
		r = lower_under(b, rank, rank->model, "optimizer", optimizer, err);
	if (r >= 0 && random && random->kind != SF_PV_NONE)
		r = lower_random(b, rank, random, err);
	if (r >= 0 && rank->optim) {
		name_buffers(rank->optim->archive.root, &rank->optim->arena, 0);
		r = lower_under(b, rank, rank->optim, NULL, rank->optim->archive.root, err);
	}
	return r;
}

/* A parameter's piece, or a value of one rank: its name is one element of its path. */
static int lower_left(struct sf_ckpt_builder *b, const struct megatron_left *left,
                      struct sf_error *err)
{
	char *name = sf_arena_alloc(&left->rank->model->arena, (size_t)left->len + 1);

	if (!name)
		return sf_fail(err, -ENOMEM, "no memory for a key of %" PRIu32 " bytes", left->len);
	memcpy(name, left->name, left->len);
	name[left->len] = '\0';
	return lower_under(b, left->rank, left->rank->model, name, left->v, err);
}

static int lower_ranks(const struct megatron_ranks *ranks, const struct megatron_lefts *left,
                       struct sf_ckpt_builder *b, struct sf_error *err)
{
	const size_t n = (size_t)ranks->ntensor * ranks->npipe * ranks->nexpert;
	int r = 0;

	for (size_t i = 0; i < left->n && r >= 0; i++)
		r = lower_left(b, &left->at[i], err);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = lower_rank(b, &ranks->at[i], err);
	return r < 0 ? r
	             : sf_ckpt_builder_warn(b, NULL, "per-rank",
	                                    "the optimizer's state and those of random numbers "
	                                    "are shown as each of the %zu ranks has them, "
	                                    "under rank.DIRECTORY: which parameter is where in "
	                                    "them is not stored",
	                                    n);
}

int megatron_load_legacy(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                         struct megatron_facts *facts, struct sf_error *err)
{
	struct sf_join_rules rules = { .n = 0 };
	struct megatron_lefts left = { .n = 0 };
	struct megatron_ranks ranks;
	int r = megatron_ranks_open(src, b, &ranks, err);

	if (r >= 0 && facts->join_rules)
		r = sf_join_rules_parse(facts->join_rules, strlen(facts->join_rules), &rules, err);
	if (r >= 0) {
		rules.gated = megatron_arg_is_set(&ranks, "swiglu") ||
		              megatron_arg_is_set(&ranks, "gated_linear_unit");
		facts->writer = "Megatron-LM, legacy";
		facts->ranks = ranks.ntensor * ranks.npipe * ranks.nexpert;
		r = megatron_join(&ranks, &rules, b, &left, err);
	}
	if (r >= 0) {
		sf_ckpt_builder_beside(b);
		r = lower_common(&ranks, b, facts, err);
	}
	if (r >= 0)
		r = lower_ranks(&ranks, &left, b, err);
	megatron_lefts_release(&left);
	sf_join_rules_release(&rules);
	megatron_ranks_release(&ranks);
	return r;
}
