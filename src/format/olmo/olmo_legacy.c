#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/olmo/olmo.h"
#include "format/rankfiles/rankfiles_lower.h"
#include "format/torch/torch_lower.h"

/* What each rank has under @name stands for the rank; -ENOENT no rank has it. */
static int choose(struct olmo_ranks *ranks, struct sf_pv *const *root, const char *name)
{
	int r = -ENOENT;

	for (uint32_t i = 0; i < ranks->n; i++) {
		struct sf_pv *v = root[i] ? sf_pv_get(root[i], name) : NULL;
		if (root[i])
			ranks->part[i].r = v ? 0 : -ENOENT;
		ranks->part[i].archive.root = v;
		if (v)
			r = 0;
	}
	return r;
}

static int lower_group(struct olmo_load *l, struct olmo_ranks *ranks, const char *group)
{
	struct rankfiles_join join = { 0 };
	int r = rankfiles_join(&join, ranks->part, ranks->n, l->err);

	if (r >= 0)
		r = rankfiles_lower(l->b, group, &join, NULL, l->err);
	rankfiles_join_release(&join);
	return r;
}

/* The trainer's state: all but the model and the optimizer, as an object train.rankR. */
static int lower_trainer(struct olmo_load *l, struct sf_torch_part *part, uint32_t rank,
                         struct sf_pv *root)
{
	char key[40], name[24];
	struct sf_path_elem path[2] = { { "train", 5, SF_PATH_TEXT }, { name, 0, SF_PATH_TEXT } };
	size_t n = 0;
	int r;

	if (root->kind != SF_PV_DICT)
		return 0;
	for (size_t i = 0; i + 1 < root->seq.n; i += 2) {
		if (sf_pv_is_str(root->seq.at[i], "model") ||
		    sf_pv_is_str(root->seq.at[i], "optim"))
			continue;
		root->seq.at[n] = root->seq.at[i];
		root->seq.at[n + 1] = root->seq.at[i + 1];
		n += 2;
	}
	root->seq.n = n;
	path[1].len = (uint32_t)snprintf(name, sizeof(name), "rank%" PRIu32, rank);
	int len = snprintf(key, sizeof(key), "train.%s", name);
	r = sf_torch_lower_value(l->b, part, key, (size_t)len, root, l->err);
	return r < 0 ? r : sf_ckpt_builder_path(l->b, key, (size_t)len, path, 2, l->err);
}

int olmo_load_legacy(struct olmo_load *l)
{
	static const char *const groups[] = { "model", "optim" };
	struct olmo_ranks ranks = { 0 };
	SF_FREE struct sf_pv **root = NULL;
	int r = olmo_ranks_open(l, "", 0, &ranks);

	if (r >= 0 && !(root = calloc(ranks.n, sizeof(*root))))
		r = sf_fail(l->err, -ENOMEM, "no memory for %u ranks", ranks.n);
	for (uint32_t i = 0; r >= 0 && i < ranks.n; i++)
		root[i] = ranks.part[i].r == 0 ? ranks.part[i].archive.root : NULL;
	for (size_t k = 0; k < SF_ARRAY_LEN(groups) && r >= 0; k++) {
		if (choose(&ranks, root, groups[k]) >= 0)
			r = lower_group(l, &ranks, groups[k]);
		else if (k == 0)
			r = sf_fail(l->err, -EBADMSG, "no rank's file has a model in it");
	}
	if (r >= 0)
		sf_ckpt_builder_beside(l->b);
	for (uint32_t i = 0; r >= 0 && i < ranks.n; i++)
		if (root[i])
			r = lower_trainer(l, &ranks.part[i], i, root[i]);
	olmo_ranks_release(&ranks);
	return r;
}
